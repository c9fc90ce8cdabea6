// Attention over block tables: which body runs. bf16 caches with heads of 32, 64 or 128 go to the tensor
// cores, whose two bodies give the same bits.
#include "kernels/cuda/attention_bodies.cuh"
#include "kernels/cuda/bodies.h"

namespace rafter::kernels::cuda {
namespace {

bool has_tensor_body(const AttentionArgs& a) {
  const int d = a.cache.head_dim;
  return a.cache.type == tensor::DType::bf16 && !a.cache.has_codes() && (d == 32 || d == 64 || d == 128);
}

template <int kHeadDim>
void launch_tensor(const AttentionArgs& a, const RopeAppendArgs* rope, const CudaLaunch& l) {
  if (supports_attention_rows(a, l)) return attention_rows<kHeadDim>(a, rope, l);
  attention_prompt<kHeadDim>(a, l);
}

}  // namespace

bool supports_attention(const AttentionArgs& a) { return has_tensor_body(a) || supports_attention_any(a); }

bool attention_gives_bf16(const AttentionArgs& a, const CudaLaunch& l) {
  return has_tensor_body(a) && supports_attention_rows(a, l);
}

size_t attention_scratch(const AttentionArgs& a, const CudaLaunch& l) {
  const bool rows = has_tensor_body(a) && supports_attention_rows(a, l);
  return rows ? static_cast<size_t>(attention_rows_scratch(a, l)) : 0;
}

bool fuses_rope_attention(const RopeAppendArgs& rope, const AttentionArgs& a, const CudaLaunch& l) {
  return l.capacity == 1 && rope.q.out == a.q && has_tensor_body(a) && supports_attention_rows(a, l);
}

void rope_attention(const RopeAppendArgs& rope, const AttentionArgs& a, const CudaLaunch& l) {
  if (a.cache.head_dim == 32) return launch_tensor<32>(a, &rope, l);
  if (a.cache.head_dim == 64) return launch_tensor<64>(a, &rope, l);
  launch_tensor<128>(a, &rope, l);
}

void attention(const AttentionArgs& a, const CudaLaunch& l) {
  if (!has_tensor_body(a)) return attention_any(a, l);
  if (a.cache.head_dim == 32) return launch_tensor<32>(a, nullptr, l);
  if (a.cache.head_dim == 64) return launch_tensor<64>(a, nullptr, l);
  launch_tensor<128>(a, nullptr, l);
}

}  // namespace rafter::kernels::cuda

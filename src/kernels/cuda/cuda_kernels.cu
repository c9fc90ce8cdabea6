#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cuda_kernels.h"

namespace rafter::kernels {

const CudaKernels* cuda_kernels() {
  static const CudaKernels table = [] {
    CudaKernels t;
    t.embed = cuda::embed;
    t.rms_norm = cuda::rms_norm;
    t.matmul = cuda::matmul;
    t.rope_angles = cuda::rope_angles;
    t.rope = cuda::rope;
    t.kv_append = cuda::kv_append;
    t.rope_append = cuda::rope_append;
    t.attention = cuda::attention;
    t.swiglu = cuda::swiglu;
    t.add = cuda::add;
    t.select_rows = cuda::select_rows;
    t.supports_format = cuda::supports_format;
    t.supports_attention = cuda::supports_attention;
    t.fuses_matmul = cuda::fuses_matmul;
    t.matmul_scratch = cuda::matmul_scratch;
    t.matmul_kernel_name = cuda::matmul_kernel_name;
    t.attention_scratch = cuda::attention_scratch;
    t.rope_attention = cuda::rope_attention;
    t.fuses_rope_attention = cuda::fuses_rope_attention;
    t.greedy = cuda::greedy;
    t.greedy_scratch = cuda::greedy_scratch;
    t.relaid_bytes = cuda::relaid_bytes;
    t.relay = cuda::relay;
    t.takes_bf16 = cuda::takes_bf16;
    t.gives_bf16 = cuda::gives_bf16;
    t.attention_gives_bf16 = cuda::attention_gives_bf16;
    return t;
  }();
  return &table;
}

}  // namespace rafter::kernels

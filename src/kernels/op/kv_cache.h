// One layer's keys and values inside the block store, and the op that appends to them.
//
// A cache block holds kBlockPositions positions of one sequence. Per layer it is laid out
// [kv_head][position][head_dim], keys and values apart. Position p of a sequence is slot p % 64 of block
// block_table(…)[p / 64]. Layers that keep different positions (all of them, or a window's) are of different
// kinds, each with blocks and tables of its own.
#pragma once

#include "kernels/op/step.h"
#include "tensor/dtype.h"

namespace rafter::kernels {

inline constexpr int64_t kBlockPositions = 64;

struct KvLayer {
  std::byte* keys = nullptr;                 // of block 0
  std::byte* values = nullptr;               // of block 0
  int64_t block_stride = 0;                  // bytes from one block to the next, the same for keys and values
  tensor::DType type = tensor::DType::bf16;  // bf16 or f32
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t kind = 0;  // whose block tables it reads

  int64_t element_bytes() const { return tensor::dtype_bytes(type); }
  // Offset of [kv_head][slot][0] inside a block, in bytes.
  int64_t offset(int64_t kv_head, int64_t slot) const {
    return (kv_head * kBlockPositions + slot) * head_dim * element_bytes();
  }
};

// The block ids of row b's sequence. Always inline: see Worker::claim.
[[gnu::always_inline]] inline const int32_t* block_table(const StepInput& input, const KvLayer& cache,
                                                         int64_t b) {
  return input.block_tables + cache.kind * input.block_table_kind_stride +
         input.sequences[b] * input.block_table_stride;
}

// Appends each row's key and value at its position. Rounds to the cache's type (nearest, ties to even).
struct KvAppendArgs {
  const StepInput* input = nullptr;
  KvLayer cache;
  const float* k = nullptr;  // [B, KV · HD], already rotated
  const float* v = nullptr;  // [B, KV · HD]
};

inline Cost cost(const KvAppendArgs& a, int64_t rows) {
  const int64_t elements = rows * 2 * a.cache.kv_heads * a.cache.head_dim;
  return {0, elements * a.cache.element_bytes(), elements * 4, 0};
}

}  // namespace rafter::kernels

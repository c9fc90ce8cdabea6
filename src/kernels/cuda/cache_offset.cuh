// Where a position's keys and values lie in the block store.
#pragma once

#include "kernels/op/kv_cache.h"

namespace rafter::kernels::cuda {

// In bytes, of row b's sequence; caches of floats.
__device__ inline int64_t cache_offset(const StepInput& input, const KvLayer& cache, int64_t b, int64_t head,
                                       int64_t position) {
  const int32_t* table = input.block_tables + cache.kind * input.block_table_kind_stride +
                         input.sequences[b] * input.block_table_stride;
  const int64_t element = cache.type == tensor::DType::f32 ? 4 : 2;
  return table[position / kBlockPositions] * cache.block_stride +
         (head * kBlockPositions + position % kBlockPositions) * cache.head_dim * element;
}

}  // namespace rafter::kernels::cuda

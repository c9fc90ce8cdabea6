// Rows of a cache with codes, one value at a time: kernels/op/kv_cache.h says how they are stored.
#pragma once

#include "kernels/op/kv_cache.h"

namespace rafter::kernels::reference {

// Stores x[head_dim] as the row [kv_head][slot] of a block's keys or of its values. Keys need those before
// them in the block.
void quantize_key(const KvLayer& cache, std::byte* keys, int64_t kv_head, int64_t slot, const float* x);
void quantize_value(const KvLayer& cache, std::byte* values, int64_t kv_head, int64_t slot, const float* x);

// Multiplies each run of the row by the rotation.
void rotate_row(const KvLayer& cache, float* x);

// The first `rows` keys of a block, rotated back, as fp32 values out[rows][head_dim].
void dequantize_keys(const KvLayer& cache, const std::byte* keys, int64_t kv_head, int64_t rows, float* out);
// The value [kv_head][slot], rotated back, as fp32 values out[head_dim].
void dequantize_value(const KvLayer& cache, const std::byte* values, int64_t kv_head, int64_t slot,
                      float* out);

}  // namespace rafter::kernels::reference

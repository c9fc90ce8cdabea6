// Rows of a cache with codes, one value at a time: kernels/op/kv_cache.h says how they are stored.
#pragma once

#include "kernels/op/kv_cache.h"

namespace rafter::kernels::reference {

// `side`: the keys or the values of a block. Stores x[head_dim] as the row [kv_head][slot].
void quantize_row(const KvLayer& cache, std::byte* side, int64_t kv_head, int64_t slot, const float* x);

// Multiplies each run of the row by the rotation.
void rotate_row(const KvLayer& cache, float* x);

// The row [kv_head][slot], rotated back, as fp32 values out[head_dim].
void dequantize_row(const KvLayer& cache, const std::byte* side, int64_t kv_head, int64_t slot, float* out);

}  // namespace rafter::kernels::reference

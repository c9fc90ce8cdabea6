// A part of a row through the scalar codec, for bodies without a decoder of their own. Compiled once, for the
// baseline.
#pragma once

#include "tensor/matrix.h"

namespace rafter::kernels {

// Expands W[n, k … k + count) to fp32; k and count are multiples of the format's block.
void decode_columns(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out);

}  // namespace rafter::kernels

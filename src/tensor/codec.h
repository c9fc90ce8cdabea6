// The scalar codecs: the definition of every number format. decode_row is what the reference kernels read
// through and what the SIMD kernels are tested against; encode_row is what `synth` and the tests write with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/matrix.h"

namespace rafter::tensor {

// Expands row r to fp32: out has matrix.columns elements. Affine: fp32(code)·fp32(scale) + fp32(bias).
void decode_row(const MatrixView& matrix, int64_t r, std::span<float> out);

// Storage of a matrix that this process made, in one of the formats above.
struct EncodedMatrix {
  NumberFormat format;
  int64_t rows = 0, columns = 0;
  std::vector<std::byte> data, scales, biases;

  MatrixView view() const;
};

// Encodes row-major fp32 values [rows, columns]. `columns` must be a multiple of format.block_columns().
// Affine follows MLX's rule (snapped edge); GGUF types follow the rounding of their reference quantizers.
EncodedMatrix encode_matrix(NumberFormat format, int64_t rows, int64_t columns,
                            std::span<const float> values);

}  // namespace rafter::tensor

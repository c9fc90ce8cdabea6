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

// Encodes one row. `values.size()` must be a multiple of format.block_columns(); `data` takes
// format.row_bytes(columns) bytes, `scales` format.scale_row_bytes(columns), `biases`
// format.bias_row_bytes(columns); null where that is 0. Affine rounds the values to the scale type first and
// then follows MLX's rule, so that the bytes equal mlx.core.quantize(weights of that type); MLX's other kinds
// and GGUF's blocks of 32 (but IQ4_NL) give the bytes of their reference quantizers; the rest are searches of
// their own, plain ones but for q6_k.
void encode_row(NumberFormat format, std::span<const float> values, std::byte* data,
                std::byte* scales = nullptr, std::byte* biases = nullptr);

// Storage of a matrix that this process made, in one of the formats above.
struct EncodedMatrix {
  NumberFormat format;
  int64_t rows = 0, columns = 0;
  std::vector<std::byte> data, scales, biases;

  MatrixView view() const;
};

// Encodes row-major fp32 values [rows, columns], row by row.
EncodedMatrix encode_matrix(NumberFormat format, int64_t rows, int64_t columns,
                            std::span<const float> values);

}  // namespace rafter::tensor

// Views of stored weights. A view owns nothing: the checkpoint's mapping does. No pointer here is aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/number_format.h"

namespace rafter::tensor {

// A weight matrix [rows, columns] exactly as its file holds it: row r starts at data + r ·
// format.row_bytes(columns).
struct MatrixView {
  NumberFormat format;
  int64_t rows = 0;     // N, the output dimension of a projection
  int64_t columns = 0;  // K, the input dimension
  const std::byte* data = nullptr;
  const std::byte* scales = nullptr;  // MLX's kinds: [rows, columns / group] of format.scale_type
  const std::byte* biases = nullptr;  // affine only: the same shape

  bool empty() const { return data == nullptr; }
  const std::byte* row(int64_t r) const { return data + r * format.row_bytes(columns); }
  const std::byte* scale_row(int64_t r) const { return scales + r * format.scale_row_bytes(columns); }
  const std::byte* bias_row(int64_t r) const { return biases + r * format.bias_row_bytes(columns); }
  int64_t bytes() const { return format.matrix_bytes(rows, columns); }

  // Rows [first, first + count) as a matrix of their own: every format keeps rows apart.
  MatrixView row_range(int64_t first, int64_t count) const {
    MatrixView part = *this;
    part.rows = count;
    part.data = row(first);
    if (scales != nullptr) part.scales = scale_row(first), part.biases = bias_row(first);
    return part;
  }
};

// A vector (a norm's weight, an additive bias) as its file holds it: plain formats only.
struct VectorView {
  DType type = DType::f32;
  int64_t size = 0;
  const std::byte* data = nullptr;

  bool empty() const { return data == nullptr; }
  float at(int64_t i) const { return load_float(type, data, i); }
};

}  // namespace rafter::tensor

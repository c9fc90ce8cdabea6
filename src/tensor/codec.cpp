#include "tensor/codec.h"

#include "base/check.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor {

void decode_row(const MatrixView& matrix, int64_t r, std::span<float> out) {
  RAFTER_CHECK(r >= 0 && r < matrix.rows, "row {} of {}", r, matrix.rows);
  RAFTER_CHECK(static_cast<int64_t>(out.size()) == matrix.columns, "{} values for {} columns", out.size(),
               matrix.columns);
  const std::byte* row = matrix.row(r);
  switch (matrix.format.kind) {
    case FormatKind::f32:
      return codec::decode_plain(DType::f32, row, out);
    case FormatKind::f16:
      return codec::decode_plain(DType::f16, row, out);
    case FormatKind::bf16:
      return codec::decode_plain(DType::bf16, row, out);
    case FormatKind::affine:
      return codec::decode_affine(matrix.format, {row, matrix.scale_row(r), matrix.bias_row(r)}, out);
    case FormatKind::q4_0:
      return codec::decode_q4_0(row, out);
    case FormatKind::q4_1:
      return codec::decode_q4_1(row, out);
    case FormatKind::q8_0:
      return codec::decode_q8_0(row, out);
    case FormatKind::q6_k:
      return codec::decode_q6_k(row, out);
  }
  RAFTER_CHECK(false, "number format {}", static_cast<int>(matrix.format.kind));
}

void encode_row(NumberFormat format, std::span<const float> values, std::byte* data, std::byte* scales,
                std::byte* biases) {
  RAFTER_CHECK(static_cast<int64_t>(values.size()) % format.block_columns() == 0,
               "a row of {} values in blocks of {}", values.size(), format.block_columns());
  switch (format.kind) {
    case FormatKind::f32:
      return codec::encode_plain(DType::f32, values, data);
    case FormatKind::f16:
      return codec::encode_plain(DType::f16, values, data);
    case FormatKind::bf16:
      return codec::encode_plain(DType::bf16, values, data);
    case FormatKind::affine:
      RAFTER_CHECK(scales != nullptr && biases != nullptr);
      return codec::encode_affine(format, values, {data, scales, biases});
    case FormatKind::q4_0:
      return codec::encode_q4_0(values, data);
    case FormatKind::q4_1:
      return codec::encode_q4_1(values, data);
    case FormatKind::q8_0:
      return codec::encode_q8_0(values, data);
    case FormatKind::q6_k:
      return codec::encode_q6_k(values, data);
  }
  RAFTER_CHECK(false, "number format {}", static_cast<int>(format.kind));
}

MatrixView EncodedMatrix::view() const {
  const bool affine = format.kind == FormatKind::affine;
  return {
      format, rows, columns, data.data(), affine ? scales.data() : nullptr, affine ? biases.data() : nullptr};
}

EncodedMatrix encode_matrix(NumberFormat format, int64_t rows, int64_t columns,
                            std::span<const float> values) {
  RAFTER_CHECK(rows >= 0 && columns >= 0 && static_cast<int64_t>(values.size()) == rows * columns,
               "{} values for {} x {}", values.size(), rows, columns);
  EncodedMatrix matrix{format, rows, columns, {}, {}, {}};
  const int64_t row_bytes = format.row_bytes(columns), scale_bytes = format.scale_row_bytes(columns);
  matrix.data.resize(static_cast<size_t>(rows * row_bytes));
  matrix.scales.resize(static_cast<size_t>(rows * scale_bytes));
  matrix.biases.resize(static_cast<size_t>(rows * scale_bytes));
  for (int64_t r = 0; r < rows; ++r) {
    encode_row(format, values.subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns)),
               matrix.data.data() + r * row_bytes, matrix.scales.data() + r * scale_bytes,
               matrix.biases.data() + r * scale_bytes);
  }
  return matrix;
}

}  // namespace rafter::tensor

#include "tensor/codec.h"

#include "base/check.h"
#include "tensor/format_table.h"

namespace rafter::tensor {

void decode_row(const MatrixView& matrix, int64_t r, std::span<float> out) {
  RAFTER_CHECK(r >= 0 && r < matrix.rows, "row {} of {}", r, matrix.rows);
  RAFTER_CHECK(static_cast<int64_t>(out.size()) == matrix.columns, "{} values for {} columns", out.size(),
               matrix.columns);
  format_traits(matrix.format.kind)
      .decode(matrix.format, {matrix.row(r), matrix.scale_row(r), matrix.bias_row(r)}, out);
}

void encode_row(NumberFormat format, std::span<const float> values, std::byte* data, std::byte* scales,
                std::byte* biases) {
  const auto columns = static_cast<int64_t>(values.size());
  RAFTER_CHECK(columns % format.block_columns() == 0, "a row of {} values in blocks of {}", columns,
               format.block_columns());
  RAFTER_CHECK((scales != nullptr || format.scale_row_bytes(columns) == 0) &&
                   (biases != nullptr || format.bias_row_bytes(columns) == 0),
               "{} keeps scales or biases apart", format.name());
  format_traits(format.kind).encode(format, values, {data, scales, biases});
}

MatrixView EncodedMatrix::view() const {
  return {format,
          rows,
          columns,
          data.data(),
          scales.empty() ? nullptr : scales.data(),
          biases.empty() ? nullptr : biases.data()};
}

EncodedMatrix encode_matrix(NumberFormat format, int64_t rows, int64_t columns,
                            std::span<const float> values) {
  RAFTER_CHECK(rows >= 0 && columns >= 0 && static_cast<int64_t>(values.size()) == rows * columns,
               "{} values for {} x {}", values.size(), rows, columns);
  EncodedMatrix matrix{format, rows, columns, {}, {}, {}};
  const int64_t row_bytes = format.row_bytes(columns), scale_bytes = format.scale_row_bytes(columns),
                bias_bytes = format.bias_row_bytes(columns);
  matrix.data.resize(static_cast<size_t>(rows * row_bytes));
  matrix.scales.resize(static_cast<size_t>(rows * scale_bytes));
  matrix.biases.resize(static_cast<size_t>(rows * bias_bytes));
  for (int64_t r = 0; r < rows; ++r) {
    encode_row(format, values.subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns)),
               matrix.data.data() + r * row_bytes, matrix.scales.data() + r * scale_bytes,
               matrix.biases.data() + r * bias_bytes);
  }
  return matrix;
}

}  // namespace rafter::tensor

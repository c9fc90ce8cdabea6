#include "tensor/number_format.h"

#include <fmt/format.h>

#include "base/check.h"
#include "tensor/format_table.h"

namespace rafter::tensor {

NumberFormat NumberFormat::plain(DType type) {
  switch (type) {
    case DType::f32:
      return {FormatKind::f32, 0, 0, DType::f32};
    case DType::f16:
      return {FormatKind::f16, 0, 0, DType::f16};
    case DType::bf16:
      return {FormatKind::bf16, 0, 0, DType::bf16};
    default:
      RAFTER_CHECK(false, "no plain number format for {}", dtype_name(type));
  }
}

NumberFormat NumberFormat::affine(int bits, int group, DType scale_type) {
  return {FormatKind::affine, static_cast<uint8_t>(bits), static_cast<uint16_t>(group), scale_type};
}

NumberFormat NumberFormat::floating(FormatKind kind) {
  switch (kind) {
    case FormatKind::mxfp4:
      return {kind, 4, 32, DType::f8_e8m0};
    case FormatKind::mxfp8:
      return {kind, 8, 32, DType::f8_e8m0};
    case FormatKind::nvfp4:
      return {kind, 4, 16, DType::f8_e4m3};
    default:
      RAFTER_CHECK(false, "number format {} is no floating-point mode", static_cast<int>(kind));
  }
}

std::string NumberFormat::name() const {
  if (kind == FormatKind::affine) return fmt::format("q{}g{}", bits, group);
  return std::string(format_traits(kind).name);
}

int64_t NumberFormat::block_columns() const { return group != 0 ? group : format_traits(kind).block_columns; }

int64_t NumberFormat::row_bytes(int64_t columns) const {
  if (group != 0) return columns * bits / 8;
  const FormatTraits& traits = format_traits(kind);
  return columns / traits.block_columns * traits.block_bytes;
}

int64_t NumberFormat::scale_row_bytes(int64_t columns) const {
  return group != 0 ? columns / group * dtype_bytes(scale_type) : 0;
}

int64_t NumberFormat::bias_row_bytes(int64_t columns) const {
  return kind == FormatKind::affine ? scale_row_bytes(columns) : 0;
}

int64_t NumberFormat::matrix_bytes(int64_t rows, int64_t columns) const {
  return rows * (row_bytes(columns) + scale_row_bytes(columns) + bias_row_bytes(columns));
}

}  // namespace rafter::tensor

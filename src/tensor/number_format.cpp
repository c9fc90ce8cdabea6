#include "tensor/number_format.h"

#include <fmt/format.h>

#include "base/check.h"

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

std::string NumberFormat::name() const {
  switch (kind) {
    case FormatKind::f32:
      return "f32";
    case FormatKind::f16:
      return "f16";
    case FormatKind::bf16:
      return "bf16";
    case FormatKind::affine:
      return fmt::format("q{}g{}", bits, group);
    case FormatKind::q4_0:
      return "q4_0";
    case FormatKind::q4_1:
      return "q4_1";
    case FormatKind::q8_0:
      return "q8_0";
    case FormatKind::q6_k:
      return "q6_k";
  }
  return "?";
}

int64_t NumberFormat::block_columns() const {
  switch (kind) {
    case FormatKind::f32:
    case FormatKind::f16:
    case FormatKind::bf16:
      return 1;
    case FormatKind::affine:
      return group;
    case FormatKind::q4_0:
    case FormatKind::q4_1:
    case FormatKind::q8_0:
      return 32;
    case FormatKind::q6_k:
      return 256;
  }
  return 1;
}

int64_t NumberFormat::row_bytes(int64_t columns) const {
  switch (kind) {
    case FormatKind::f32:
      return columns * 4;
    case FormatKind::f16:
    case FormatKind::bf16:
      return columns * 2;
    case FormatKind::affine:
      return columns * bits / 8;
    case FormatKind::q4_0:
      return columns / 32 * 18;
    case FormatKind::q4_1:
      return columns / 32 * 20;
    case FormatKind::q8_0:
      return columns / 32 * 34;
    case FormatKind::q6_k:
      return columns / 256 * 210;
  }
  return 0;
}

int64_t NumberFormat::scale_row_bytes(int64_t columns) const {
  return kind == FormatKind::affine ? columns / group * dtype_bytes(scale_type) : 0;
}

int64_t NumberFormat::matrix_bytes(int64_t rows, int64_t columns) const {
  return rows * (row_bytes(columns) + 2 * scale_row_bytes(columns));
}

}  // namespace rafter::tensor

// How matrices that the tensor cores read lie on the device: re-laid once at upload, so that a warp reads
// whole tiles in the order in which mma.m16n8k16 wants its A operand.
//
// A unit holds 16 rows × 64 columns, units of a tile of 16 rows stand one behind another, tiles likewise;
// rows beyond the matrix are zeros. Lane (g, t) = (lane / 4, lane % 4) owns of each unit, for j < 4, h < 2, e
// < 2, rows g and g + 8 of column column_in_unit(t, j, h, e): what it passes to the j-th mma.
//
//   bf16    [j][lane] 16 bytes: the A registers (g, h = 0), (g + 8, 0), (g, 1), (g + 8, 1), each two columns
//   codes   [plane][lane] 16 bytes, word j: bits 4·i and 16 + 4·i hold e = 0 and 1 of A register i; then per
//           scale group [g] 8 bytes: (scale, bias) of row g, (scale, bias) of row g + 8
// 4-bit codes have one plane; 8-bit ones two, the high nibbles first: q = 16·high + low.
#pragma once

#include <cstdint>

#include "kernels/cuda/weight_element.cuh"
#include "tensor/matrix.h"

namespace rafter::kernels::cuda {

constexpr int kTileRows = 16, kUnitColumns = 64;

// What the unit of a matrix looks like. `planes` is 0 for bf16.
struct TileLayout {
  bool tiled = false;
  int planes = 0;
  int groups = 0;           // scale groups per unit
  bool half_pairs = false;  // (scale, bias) as fp16, not bf16

  __host__ __device__ constexpr int unit_bytes() const {
    return planes == 0 ? 2048 : planes * 512 + groups * 64;
  }
  constexpr bool operator==(const TileLayout&) const = default;
};

// The one decision which matrices are re-laid; all others stay as the file holds them.
__host__ __device__ inline TileLayout tile_layout(const tensor::MatrixView& w) {
  using tensor::FormatKind;
  if (w.columns % kUnitColumns != 0) return {};
  const tensor::NumberFormat& f = w.format;
  if (f.kind == FormatKind::bf16) return {true, 0, 0, false};
  if (f.kind == FormatKind::affine && (f.bits == 4 || f.bits == 8) && f.scale_type != tensor::DType::f32)
    return {true, f.bits / 4, f.group == 32 ? 2 : 1, f.scale_type == tensor::DType::f16};
  if (f.kind == FormatKind::q4_0 || f.kind == FormatKind::q4_1) return {true, 1, 2, true};
  if (f.kind == FormatKind::q8_0) return {true, 2, 2, true};
  return {};
}

__host__ __device__ inline int64_t tiled_bytes(const tensor::MatrixView& w) {
  return (w.rows + kTileRows - 1) / kTileRows * (w.columns / kUnitColumns) * tile_layout(w).unit_bytes();
}

// A column of a unit and the lane and register that hold it: column = 32·(j / 2) + 8·t + 4·(j % 2) + 2·h + e.
// So steps j = 0, 1 lie in the first 32 columns and 2, 3 in the others, and a lane's inputs for two steps are
// 8 neighbours.
struct UnitColumn {
  int t, j, h, e;
};
__host__ __device__ inline UnitColumn unit_column(int column) {
  return {column / 8 % 4, column / 32 * 2 + column / 4 % 2, column / 2 % 2, column % 2};
}

// The first or second number of a (scale, bias) pair.
__device__ inline float pair_half(uint32_t pair, bool second, bool half) {
  const uint32_t bits = second ? pair >> 16 : pair & 0xFFFF;
  return half ? half_value(bits) : __uint_as_float(bits << 16);
}

// One element of a re-laid matrix.
__device__ inline float tiled_element(const tensor::MatrixView& w, const TileLayout& layout, int64_t n,
                                      int64_t k) {
  const int64_t unit = n / kTileRows * (w.columns / kUnitColumns) + k / kUnitColumns;
  const uint8_t* from = device_bytes(w.data) + unit * layout.unit_bytes();
  const UnitColumn c = unit_column(static_cast<int>(k % kUnitColumns));
  const int row = static_cast<int>(n % kTileRows), lane = row % 8 * 4 + c.t, reg = c.h * 2 + row / 8;
  if (layout.planes == 0)
    return __uint_as_float(load_u16(from + c.j * 512 + lane * 16 + reg * 4 + c.e * 2) << 16);
  uint32_t code = 0;
  for (int plane = 0; plane < layout.planes; ++plane) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(from + plane * 512 + lane * 16 + c.j * 4);
    code = code << 4 | (word >> (16 * c.e + 4 * reg) & 15);
  }
  const int group = static_cast<int>(k % kUnitColumns) / (kUnitColumns / layout.groups);
  const uint32_t pair =
      *reinterpret_cast<const uint32_t*>(from + layout.planes * 512 + group * 64 + row % 8 * 8 + row / 8 * 4);
  return __fmaf_rn(static_cast<float>(code), pair_half(pair, false, layout.half_pairs),
                   pair_half(pair, true, layout.half_pairs));
}

}  // namespace rafter::kernels::cuda

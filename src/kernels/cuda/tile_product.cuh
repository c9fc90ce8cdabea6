// What both tensor-core products share, so that a row's sums are the same bits in either: one unit of weights
// (weight_tiles.cuh) times 8 rows, and the order in which units are summed.
//
// Codes go in exactly: bf16 holds 128 + q for a 4-bit q, made by one logical operation. A group's sum is then
// scaled once, the 128 taken back with the bias:
//   Σ w·x = scale · S + (bias − 128 · scale) · X,   S = Σ (128 + q) · x,  X = Σ x
// and for two planes S = 16 · S_high + S_low with 2176 for 128.
//
// Units are cut into kProductWarps slices of neighbours; a slice is summed in ascending order, and the slices in
// ascending order. A product of few rows gives each warp one slice, a product of many walks them.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/cuda/weight_tiles.cuh"

namespace rafter::kernels::cuda {

__device__ inline int slice_begin(int slice, int units, int slices) { return slice * units / slices; }

__device__ inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The four A registers of one word of codes, each code as 128 + q.
__device__ inline void expand_codes(uint32_t word, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;"  // (word & mask) | biased
        : "=r"(a[i])
        : "r"(word >> 4 * i), "r"(0x000F000F), "r"(0x43004300));
  }
}

template <int kPlanes_, int kGroups_, bool kHalfPairs_>
struct TileFormat {
  static constexpr int kPlanes = kPlanes_, kGroups = kGroups_;
  static constexpr bool kHalfPairs = kHalfPairs_;
  static constexpr int kUnitBytes = TileLayout{true, kPlanes, kGroups, kHalfPairs}.unit_bytes();
  static constexpr bool kHasCodes = kPlanes > 0;

  // (scale, bias less what the codes' offset adds) of a pair.
  __device__ static float2 scale_and_offset(uint32_t pair) {
    const float scale = pair_half(pair, false, kHalfPairs), bias = pair_half(pair, true, kHalfPairs);
    return {scale, __fmaf_rn(kPlanes == 2 ? -2176.0f : -128.0f, scale, bias)};
  }
};

// Adds a unit's products to total[tile of 8 rows][mma's four]. Of these, c is output g + c / 2 · 8 and row
// 2 · t + c % 2. inputs(tile, half) is the lane's 16 bytes of columns 32 · half + 8 · t … of row 8 · tile + g;
// sums(tile, half) the sums of those 32 columns for rows 8 · tile + 2 · t and the next. `unit` is in shared
// memory.
template <typename Format, int kRowTiles, typename Inputs, typename Sums>
__device__ inline void add_unit(const uint8_t* unit, int lane, const Inputs& inputs, const Sums& sums,
                                float (&total)[kRowTiles][4]) {
  if constexpr (!Format::kHasCodes) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t a[2][4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint4 v = *reinterpret_cast<const uint4*>(unit + (half * 2 + j) * 512 + lane * 16);
        a[j][0] = v.x, a[j][1] = v.y, a[j][2] = v.z, a[j][3] = v.w;
      }
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const uint4 b = inputs(tile, half);
        mma_16x8x16(total[tile], a[0], b.x, b.y);
        mma_16x8x16(total[tile], a[1], b.z, b.w);
      }
    }
  } else {
    constexpr int kHalves = 2 / Format::kGroups;  // halves of 32 columns in a group
    uint4 words[Format::kPlanes];
#pragma unroll
    for (int plane = 0; plane < Format::kPlanes; ++plane)
      words[plane] = *reinterpret_cast<const uint4*>(unit + plane * 512 + lane * 16);
#pragma unroll
    for (int group = 0; group < Format::kGroups; ++group) {
      float part[Format::kPlanes][kRowTiles][4] = {};
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        const int half = group * kHalves + h;
        uint32_t a[Format::kPlanes][2][4];
#pragma unroll
        for (int plane = 0; plane < Format::kPlanes; ++plane) {
          expand_codes(half == 0 ? words[plane].x : words[plane].z, a[plane][0]);
          expand_codes(half == 0 ? words[plane].y : words[plane].w, a[plane][1]);
        }
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          const uint4 b = inputs(tile, half);
#pragma unroll
          for (int plane = 0; plane < Format::kPlanes; ++plane) {
            mma_16x8x16(part[plane][tile], a[plane][0], b.x, b.y);
            mma_16x8x16(part[plane][tile], a[plane][1], b.z, b.w);
          }
        }
      }
      const uint2 pairs =
          *reinterpret_cast<const uint2*>(unit + Format::kPlanes * 512 + group * 64 + lane / 4 * 8);
      const float2 low = Format::scale_and_offset(pairs.x), high = Format::scale_and_offset(pairs.y);
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        float2 x = sums(tile, group * kHalves);
        if constexpr (kHalves == 2) {
          const float2 more = sums(tile, 1);
          x.x += more.x, x.y += more.y;
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          float s = part[0][tile][c];
          if constexpr (Format::kPlanes == 2) s = __fmaf_rn(16.0f, s, part[1][tile][c]);
          const float2 pair = c < 2 ? low : high;
          total[tile][c] = __fmaf_rn(pair.x, s, total[tile][c]);
          total[tile][c] = __fmaf_rn(pair.y, c % 2 == 0 ? x.x : x.y, total[tile][c]);
        }
      }
    }
  }
}

// What becomes of one product: bias, gate and residual. `residual` is that of the output, if the op adds one.
__device__ inline float finished(const MatmulArgs& a, const MatmulSegment& segment, int64_t n, float value,
                                 float up, float residual) {
  if (segment.bias != nullptr) value += segment.bias[n];
  if (a.epilogue == MatmulEpilogue::swiglu) {
    if (a.segments[1].bias != nullptr) up += a.segments[1].bias[n];
    value = value / (1.0f + expf(-value)) * up;
  }
  return a.epilogue == MatmulEpilogue::add ? residual + value : value;
}

}  // namespace rafter::kernels::cuda

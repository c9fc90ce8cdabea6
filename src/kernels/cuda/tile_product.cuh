// What both tensor-core products share, so that a row's sums are the same bits in either: one unit of weights
// (weight_tiles.cuh) times 8 rows, and the order in which units are summed.
//
// Codes go in exactly: bf16 holds 128 + q for a 4-bit q, made by one logical operation. A group's sum is then
// scaled once, the 128 taken back with the bias:
//   Σ w·x = scale · S + (bias − 128 · scale) · X,   S = Σ (128 + q) · x,  X = Σ x
// and for two planes S = 16 · S_high + S_low with 2176 for 128.
//
// Units are cut into kProductWarps slices of neighbours; a slice is summed in ascending order, and the slices
// in ascending order. A product of few rows gives each warp one slice, a product of many walks them.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/cuda/weight_tiles.cuh"
#include "kernels/op/matmul.h"

namespace rafter::kernels::cuda {

constexpr int kProductThreads = 256, kProductWarps = kProductThreads / 32;

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

// A unit in shared memory.
template <typename Format>
struct SharedUnit {
  const uint8_t* at;
  int lane;
  __device__ uint4 word(int i) const { return *reinterpret_cast<const uint4*>(at + i * 512 + lane * 16); }
  __device__ uint2 pair(int group) const {
    return *reinterpret_cast<const uint2*>(at + Format::kPlanes * 512 + group * 64 + lane / 4 * 8);
  }
};

// Adds the products of one unit of each of kTiles tiles of outputs with kRowTiles tiles of 8 rows to
// total[tile][row tile][mma's four]. Of these, c is output g + c / 2 · 8 and row 2 · t + c % 2.
// unit(tile).word(i) is the lane's i-th 16 bytes of the unit, unit(tile).pair(group) the pairs of rows g and
// g + 8. inputs(r, half) is the lane's 16 bytes of columns 32 · half + 8 · t … of row 8 · r + g, asked for
// once; sums(r, half) the sums of those 32 columns for rows 8 · r + 2 · t and the next. With kOneRow only row
// 0 is summed.
template <typename Format, bool kOneRow, int kTiles, int kRowTiles, typename Unit, typename Inputs,
          typename Sums>
__device__ inline void add_units(const Unit& unit, const Inputs& inputs, const Sums& sums,
                                 float (&total)[kTiles][kRowTiles][4]) {
  if constexpr (!Format::kHasCodes) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t a[kTiles][2][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint4 v = unit(tile).word(half * 2 + j);
          a[tile][j][0] = v.x, a[tile][j][1] = v.y, a[tile][j][2] = v.z, a[tile][j][3] = v.w;
        }
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const uint4 b = inputs(r, half);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          mma_16x8x16(total[tile][r], a[tile][0], b.x, b.y);
          mma_16x8x16(total[tile][r], a[tile][1], b.z, b.w);
        }
      }
    }
  } else {
    constexpr int kPlanes = Format::kPlanes,
                  kHalves = 2 / Format::kGroups;  // halves of 32 columns in a group
    uint4 words[kTiles][kPlanes];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int plane = 0; plane < kPlanes; ++plane) words[tile][plane] = unit(tile).word(plane);
    }
#pragma unroll
    for (int group = 0; group < Format::kGroups; ++group) {
      float part[kTiles][kPlanes][kRowTiles][4] = {};
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        const int half = group * kHalves + h;
        uint32_t a[kTiles][kPlanes][2][4];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int plane = 0; plane < kPlanes; ++plane) {
            expand_codes(half == 0 ? words[tile][plane].x : words[tile][plane].z, a[tile][plane][0]);
            expand_codes(half == 0 ? words[tile][plane].y : words[tile][plane].w, a[tile][plane][1]);
          }
        }
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          const uint4 b = inputs(r, half);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
            for (int plane = 0; plane < kPlanes; ++plane) {
              mma_16x8x16(part[tile][plane][r], a[tile][plane][0], b.x, b.y);
              mma_16x8x16(part[tile][plane][r], a[tile][plane][1], b.z, b.w);
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        float2 x = sums(r, group * kHalves);
        if constexpr (kHalves == 2) {
          const float2 more = sums(r, 1);
          x.x += more.x, x.y += more.y;
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint2 pairs = unit(tile).pair(group);
          const float2 low = Format::scale_and_offset(pairs.x), high = Format::scale_and_offset(pairs.y);
#pragma unroll
          for (int c = 0; c < 4; c += kOneRow ? 2 : 1) {
            float s = part[tile][0][r][c];
            if constexpr (kPlanes == 2) s = __fmaf_rn(16.0f, s, part[tile][1][r][c]);
            const float2 pair = c < 2 ? low : high;
            total[tile][r][c] = __fmaf_rn(pair.x, s, total[tile][r][c]);
            total[tile][r][c] = __fmaf_rn(pair.y, c % 2 == 0 ? x.x : x.y, total[tile][r][c]);
          }
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
    value = __fdividef(value, 1.0f + __expf(-value)) * up;
  }
  return a.epilogue == MatmulEpilogue::add ? residual + value : value;
}

}  // namespace rafter::kernels::cuda

// Attention of 16 query rows to one cache block of 64 positions by one warp, on the tensor cores; and the
// order in which results are merged.
//
// Both attention kernels are made of these, so a row's bits do not depend on which of them ran or on the
// other rows of a tile: a chunk (a cache block) yields (maximum, sum, weighted values) by itself; the chunks
// of a split (kSplitPositions) are merged in ascending order, and the splits in ascending order. A chunk
// without a visible position changes nothing, so it may be left out.
//
// Queries and weights are rounded to bf16, everything is summed in fp32. Scores are in units of log2: scale ·
// log2 e is applied to the product.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/op/attention.h"

namespace rafter::kernels::cuda {

constexpr int kChunk = static_cast<int>(kBlockPositions);
constexpr int kChunksPerSplit = static_cast<int>(kSplitPositions / kBlockPositions);
constexpr float kLog2e = 1.4426950408889634f;

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What a lane holds of 16 rows: those of rows g and g + 8. Of `values`, tile i holds columns 8 · i + 2 · t
// and the next: row g, row g, row g + 8, row g + 8.
template <int kHeadDim>
struct AttentionPart {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  float values[kHeadDim / 8][4] = {};
};

// The factors that bring two parts to their common maximum.
__device__ inline float rescale(float from, float to) { return from == to ? 1.0f : exp2_fast(from - to); }

template <int kHeadDim>
__device__ inline void merge(AttentionPart<kHeadDim>& all, const AttentionPart<kHeadDim>& next) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float maximum = fmaxf(all.maximum[r], next.maximum[r]);
    const float old_factor = rescale(all.maximum[r], maximum), new_factor = rescale(next.maximum[r], maximum);
    all.maximum[r] = maximum;
    all.sum[r] = __fmaf_rn(all.sum[r], old_factor, next.sum[r] * new_factor);
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
#pragma unroll
      for (int c = 2 * r; c < 2 * r + 2; ++c)
        all.values[i][c] = __fmaf_rn(all.values[i][c], old_factor, next.values[i][c] * new_factor);
    }
  }
}

// A chunk's keys and values in shared memory, [position][head_dim] bf16, 16-byte parts moved against bank
// conflicts: keys are read by rows, values through ldmatrix.
template <int kHeadDim>
struct ChunkTile {
  static constexpr int kRowBytes = kHeadDim * 2, kParts = kRowBytes / 16;
  static constexpr int kSideBytes = kChunk * kRowBytes, kBytes = 2 * kSideBytes;
  __device__ static int key_at(int position, int part) {
    return position * kRowBytes + (kParts >= 8 ? part ^ (position & 1) << 2 : part) * 16;
  }
  __device__ static int value_at(int position, int part) {
    return position * kRowBytes + (kParts >= 8 ? part ^ (position & 7) : part ^ (position >> 1 & 3)) * 16;
  }
  // By `threads` threads, of which this is number `thread`. Positions outside [from, to) become zeros: what
  // an earlier sequence left there may be no number.
  __device__ static void copy(uint8_t* tile, const std::byte* keys, const std::byte* values, int from, int to,
                              int thread, int threads) {
    for (int i = thread; i < kChunk * kParts; i += threads) {
      const int position = i / kParts, part = i % kParts;
      const int size = position >= from && position < to ? 16 : 0;
      copy_async(tile + key_at(position, part), keys + i * 16, size);
      copy_async(tile + kSideBytes + value_at(position, part), values + i * 16, size);
    }
  }
};

// The A registers of 16 query rows: q(r, d) is the address of 8 floats of row g + 8 · r, or null.
template <int kHeadDim, typename Address>
__device__ inline void load_queries(const Address& q, int lane, uint32_t (&a)[kHeadDim / 16][4]) {
  const int t = lane % 4;
#pragma unroll
  for (int half = 0; half < kHeadDim / 32; ++half) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float* from = q(r, half * 32 + t * 8);
      float4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
      if (from != nullptr)
        low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
      const __nv_bfloat162 pairs[4] = {
          __floats2bfloat162_rn(low.x, low.y), __floats2bfloat162_rn(low.z, low.w),
          __floats2bfloat162_rn(high.x, high.y), __floats2bfloat162_rn(high.z, high.w)};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        a[half * 2 + j][r] = *reinterpret_cast<const uint32_t*>(&pairs[2 * j]);
        a[half * 2 + j][2 + r] = *reinterpret_cast<const uint32_t*>(&pairs[2 * j + 1]);
      }
    }
  }
}

__device__ inline void load_values(uint32_t address, uint32_t (&b)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(address)
               : "memory");
}

// A chunk that starts at position `first`; row r of the lane (g + 8 · r) sees positions [from[r], to[r]).
template <int kHeadDim>
__device__ inline AttentionPart<kHeadDim> attend(const uint32_t (&q)[kHeadDim / 16][4], const uint8_t* tile,
                                                 int64_t first, const int (&from)[2], const int (&to)[2],
                                                 float scale_log2, int lane) {
  using Tile = ChunkTile<kHeadDim>;
  const int g = lane / 4, t = lane % 4;
  AttentionPart<kHeadDim> part;
  float scores[kChunk / 8][4];
#pragma unroll
  for (int i = 0; i < kChunk / 8; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[i][c] = 0;
#pragma unroll
    for (int half = 0; half < kHeadDim / 32; ++half) {
      const uint4 k = *reinterpret_cast<const uint4*>(tile + Tile::key_at(i * 8 + g, half * 4 + t));
      mma_16x8x16(scores[i], q[half * 2], k.x, k.y);
      mma_16x8x16(scores[i], q[half * 2 + 1], k.z, k.w);
    }
  }
#pragma unroll
  for (int i = 0; i < kChunk / 8; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int position = static_cast<int>(first) + i * 8 + 2 * t + c % 2, r = c / 2;
      scores[i][c] = position >= from[r] && position < to[r] ? scores[i][c] * scale_log2 : -INFINITY;
      part.maximum[r] = fmaxf(part.maximum[r], scores[i][c]);
    }
  }
  uint32_t weights[kChunk / 8][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    for (int offset = 1; offset < 4; offset *= 2)
      part.maximum[r] = fmaxf(part.maximum[r], __shfl_xor_sync(~0u, part.maximum[r], offset));
    const float maximum = part.maximum[r] == -INFINITY ? 0 : part.maximum[r];
#pragma unroll
    for (int i = 0; i < kChunk / 8; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(exp2_fast(scores[i][2 * r] - maximum),
                                                        exp2_fast(scores[i][2 * r + 1] - maximum));
      weights[i][r] = *reinterpret_cast<const uint32_t*>(&pair);
      part.sum[r] += __low2float(pair) + __high2float(pair);
    }
    for (int offset = 1; offset < 4; offset *= 2) part.sum[r] += __shfl_xor_sync(~0u, part.sum[r], offset);
  }
  // ldmatrix: lanes 8·m … 8·m + 7 give the rows of matrix m: positions 0–7 and 8–15, of two parts of columns.
  const int row = lane % 16, column_part = lane / 16;
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step) {
    const uint32_t a[4] = {weights[2 * step][0], weights[2 * step][1], weights[2 * step + 1][0],
                           weights[2 * step + 1][1]};
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      uint32_t b[4];
      load_values(
          shared_address(tile + Tile::kSideBytes + Tile::value_at(step * 16 + row, 2 * i + column_part)), b);
      mma_16x8x16(part.values[2 * i], a, b[0], b[1]);
      mma_16x8x16(part.values[2 * i + 1], a, b[2], b[3]);
    }
  }
  return part;
}

__device__ inline int first_visible(const AttentionArgs& a, const StepInput& input, int64_t row) {
  const int from = input.visible_from[row], window = input.positions[row] - a.window + 1;
  return a.window > 0 && window > from ? window : from;
}

// The bytes of a kv head's chunk: a cache block's part.
__device__ inline int64_t chunk_offset(const AttentionArgs& a, const int32_t* table, int chunk,
                                       int64_t kv_head) {
  return table[chunk] * a.cache.block_stride + kv_head * (kBlockPositions * a.cache.head_dim * 2);
}
__device__ inline const int32_t* table_of(const AttentionArgs& a, const StepInput& input, int64_t row) {
  return input.block_tables + a.cache.kind * input.block_table_kind_stride +
         input.sequences[row] * input.block_table_stride;
}

}  // namespace rafter::kernels::cuda

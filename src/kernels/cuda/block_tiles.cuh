// How the tiles of a product are dealt to blocks: a block's tiles are neighbours of one segment, or, with a
// gated epilogue, half of them of the gate's matrix and half those of the same outputs of the up matrix.
#pragma once

#include "kernels/cuda/weight_tiles.cuh"
#include "kernels/op/matmul.h"

namespace rafter::kernels::cuda {

__host__ __device__ inline int tiles_of(const MatmulArgs& a, int segment) {
  return static_cast<int>((a.segments[segment].weight.rows + kTileRows - 1) / kTileRows);
}
// `own_log2`: of the tiles at once that have outputs, 1, 2 or 4: no division on the way to the first load.
__host__ __device__ inline int blocks_of(const MatmulArgs& a, int segment, int own_log2) {
  return (tiles_of(a, segment) + (1 << own_log2) - 1) >> own_log2;
}
inline int own_log2_of(const MatmulArgs& a, int tiles_at_once) {
  const int own = a.epilogue == MatmulEpilogue::swiglu ? tiles_at_once / 2 : tiles_at_once;
  return own == 4 ? 2 : own == 2 ? 1 : 0;
}
inline int all_blocks(const MatmulArgs& a, int own_log2) {
  int blocks = 0;
  for (int s = 0; s < (a.epilogue == MatmulEpilogue::swiglu ? 1 : a.segment_count); ++s)
    blocks += blocks_of(a, s, own_log2);
  return blocks;
}

struct BlockTiles {
  int segment = 0;
  int own = 0;    // tiles that have outputs
  int first = 0;  // the first of them, within the segment

  __device__ BlockTiles(const MatmulArgs& a, int block, int own_log2) : own(1 << own_log2) {
    const int segments = a.epilogue == MatmulEpilogue::swiglu ? 1 : a.segment_count;
    for (; segment + 1 < segments; ++segment) {
      const int blocks = blocks_of(a, segment, own_log2);
      if (block < blocks) break;
      block -= blocks;
    }
    first = block << own_log2;
  }
  // The weights of the i-th tile. One beyond the matrix is read as its last, and unused.
  __device__ const uint8_t* tile(const MatmulArgs& a, int i, int tile_bytes) const {
    const bool up = i >= own;
    const int index = first + (up ? i - own : i), last = tiles_of(a, segment) - 1;
    return device_bytes(a.segments[up ? 1 : segment].weight.data) +
           static_cast<int64_t>(index < last ? index : last) * tile_bytes;
  }
};

}  // namespace rafter::kernels::cuda

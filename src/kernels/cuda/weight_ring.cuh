// How weights wait in shared memory for a warp of a product of few rows: a ring of stages of its own, each
// with one unit (weight_tiles.cuh) of every tile that the warp works on. Several tiles share what is not
// weights: inputs, waiting, indices.
#pragma once

#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {

__host__ __device__ constexpr int ring_depth(int stage_bytes) {
  return stage_bytes <= 640 ? 8 : stage_bytes <= 1280 ? 6 : stage_bytes <= 2400 ? 4 : 3;
}
// Of all warps of a block.
__host__ __device__ constexpr int rings_bytes(int unit_bytes, int tiles) {
  return kProductWarps * ring_depth(tiles * unit_bytes) * tiles * unit_bytes;
}

template <typename Format, int kTiles>
struct WeightRing {
  static constexpr int kStage = kTiles * Format::kUnitBytes, kDepth = ring_depth(kStage);
  static constexpr int kWarpBytes = kDepth * kStage, kBytes = rings_bytes(Format::kUnitBytes, kTiles);
  static_assert(kBytes == kWarpBytes * kProductWarps);
  static constexpr int kBlocksPerProcessor = kBytes <= 56 * 1024 ? 3 : kBytes <= 80 * 1024 ? 2 : 1;
};

}  // namespace rafter::kernels::cuda

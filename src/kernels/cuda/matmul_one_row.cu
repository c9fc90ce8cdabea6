// Products of one row, the step of a single sequence: bound by memory, and at 4 bits nearly as much by the
// instructions between. A warp streams its slice of one tile after another through a ring of its own in
// shared memory; weights are on their way before the kernel's input is there. The input is prepared by every
// block for itself: each warp its own slice.
//
// Tried and slower: the next units in registers (at most 4 fit, 37 KB under way on an SM; the head of
// llama3-8b ran at 2,670 GB/s), rings that are filled again only when half of them is used, and one tile at a
// time for large matrices at 4 bits (instructions then take longer than the weights).
#include <algorithm>

#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_tiles.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/weight_ring.cuh"

namespace rafter::kernels::cuda {
namespace {

// The prepared row, behind the rings.
int64_t row_bytes(int64_t columns) { return columns * 2 + columns / kSumColumns * 4; }

template <typename Format, int kTiles>
__global__ void __launch_bounds__(kProductThreads, kTiles <= 2 ? 3 : 2)
    one_row_kernel(const __grid_constant__ MatmulArgs a, int own_log2, int blocks) {
  using Ring = WeightRing<Format, kTiles>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float exchange[2][kTiles][kProductWarps][kTileRows], parts[kProductWarps];
  start_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const int begin = slice_begin(warp, units, kProductWarps);
  const int count = slice_begin(warp + 1, units, kProductWarps) - begin;
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;

  // What is asked for next: the rest of the slices of ahead_block's tiles, and into which stage.
  int ahead_block = blockIdx.x, ahead_left = 0;
  const uint8_t* ahead[kTiles];
  const auto find_slices = [&] {
    const BlockTiles tiles(a, ahead_block, own_log2);
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
      ahead[i] = tiles.tile(a, i, units * Format::kUnitBytes) + begin * Format::kUnitBytes + lane * 16;
    ahead_left = count;
  };
  find_slices();
  uint8_t* const ring = shared + warp * Ring::kWarpBytes;
  uint8_t* ahead_stage = ring;
  const auto after = [&](uint8_t* stage) {
    return stage == ring + (Ring::kDepth - 1) * Ring::kStage ? ring : stage + Ring::kStage;
  };
  const auto copy_next = [&] {
    if (ahead_left == 0) {
      ahead_block += static_cast<int>(gridDim.x);
      if (ahead_block < blocks) find_slices();
    }
    if (ahead_left > 0) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int at = 0; at < Format::kUnitBytes; at += 512) {
          if (at + 512 <= Format::kUnitBytes || lane * 16 < Format::kUnitBytes - at)
            copy_async(ahead_stage + i * Format::kUnitBytes + at + lane * 16, ahead[i] + at);
        }
        ahead[i] += Format::kUnitBytes;
      }
      --ahead_left;
    }
    commit_copies();
    ahead_stage = after(ahead_stage);
  };
  for (int i = 0; i < Ring::kDepth; ++i) copy_next();
  RowPreparer preparer(a);

  wait_for_inputs();
  auto* const x = reinterpret_cast<__nv_bfloat16*>(shared + Ring::kBytes);
  auto* const x_sums = reinterpret_cast<float*>(x + a.columns);
  preparer.prepare(0, parts, x, x_sums, 1);
  __syncwarp();

  uint8_t* stage = ring;
  int turn = 0;
  for (int block = blockIdx.x; block < blocks; block += gridDim.x, turn ^= 1) {
    const BlockTiles tiles(a, block, own_log2);
    const MatmulSegment& segment = a.segments[tiles.segment];
    const int n = tiles.first * kTileRows + static_cast<int>(threadIdx.x);
    const bool has_output = static_cast<int>(threadIdx.x) < tiles.own * kTileRows && n < segment.weight.rows;
    float residual = 0;  // asked for early
    if (a.epilogue == MatmulEpilogue::add && has_output) residual = a.residual[n];

    float total[kTiles][1][4] = {};
    for (int unit = begin; unit < begin + count; ++unit) {
      wait_copies<Ring::kDepth - 1>();
      __syncwarp();
      add_units<Format, true>(
          [&](int tile) { return SharedUnit<Format>{stage + tile * Format::kUnitBytes, lane}; },
          [&](int, int half) {
            uint4 b = {0, 0, 0, 0};
            if (g == 0) b = *reinterpret_cast<const uint4*>(x + unit * kUnitColumns + half * 32 + t * 8);
            return b;
          },
          [&](int, int half) { return float2{x_sums[2 * unit + half], 0}; }, total);
      __syncwarp();
      copy_next();
      stage = after(stage);
    }
    if (t == 0) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        exchange[turn][tile][warp][g] = total[tile][0][0];
        exchange[turn][tile][warp][g + 8] = total[tile][0][2];
      }
    }
    __syncthreads();
    if (!has_output) continue;
    const int tile = threadIdx.x / kTileRows, row = threadIdx.x % kTileRows;
    float value = 0, up = 0;
#pragma unroll
    for (int slice = 0; slice < kProductWarps; ++slice) {
      value += exchange[turn][tile][slice][row];
      if (gated) up += exchange[turn][tile + kTiles / 2][slice][row];
    }
    segment.out[n] = finished(a, segment, n, value, up, residual);
  }
  wait_copies<0>();
}

template <typename Format, int kTiles>
void launch_one_row(const MatmulArgs& a, const CudaLaunch& l) {
  using Ring = WeightRing<Format, kTiles>;
  const int own_log2 = own_log2_of(a, kTiles), blocks = all_blocks(a, own_log2);
  const int resident = l.multiprocessors * Ring::kBlocksPerProcessor;
  launch(one_row_kernel<Format, kTiles>, static_cast<unsigned>(blocks < resident ? blocks : resident),
         kProductThreads, static_cast<size_t>(Ring::kBytes + row_bytes(a.columns)), l.stream, a, own_log2,
         blocks);
}

bool fits(const MatmulArgs& a, int tiles, const CudaLaunch& l) {
  constexpr int64_t kStaticBytes = 6 * 1024;
  const TileLayout layout = tile_layout(a.segments[0].weight);
  const int at_once = layout.planes == 0 ? std::min(tiles, 2) : tiles;  // as matmul_one_row launches it
  return rings_bytes(layout.unit_bytes(), at_once) + row_bytes(a.columns) + kStaticBytes <= l.shared_bytes;
}

// Tiles at once, 0 if no number of them fits: what a multiprocessor with the most blocks has to do, in units
// of one tile by itself; another tile beside it costs about 0.8.
int choose_tiles(const MatmulArgs& a, const CudaLaunch& l) {
  int best = 0;
  float best_cost = 0;
  for (const int tiles : {4, 2, 1}) {
    if ((a.epilogue == MatmulEpilogue::swiglu && tiles == 1) || !fits(a, tiles, l)) continue;
    const int blocks = all_blocks(a, own_log2_of(a, tiles));
    const auto rounds = static_cast<float>((blocks + l.multiprocessors - 1) / l.multiprocessors);
    const float cost = rounds * (0.2F + 0.8F * static_cast<float>(tiles));
    if (best == 0 || cost < best_cost) best = tiles, best_cost = cost;
  }
  return best;
}

}  // namespace

bool supports_one_row(const MatmulArgs& a, const CudaLaunch& l) {
  constexpr int64_t kMostColumns = 20480;  // beyond, blocks are few that prepare the row
  return l.capacity == 1 && a.columns <= kMostColumns && choose_tiles(a, l) > 0;
}

template <typename Format>
void matmul_one_row(const MatmulArgs& a, const CudaLaunch& l) {
  const int tiles = choose_tiles(a, l);
  if constexpr (Format::kHasCodes) {
    if (tiles == 4) return launch_one_row<Format, 4>(a, l);
  }
  if (tiles >= 2) return launch_one_row<Format, 2>(a, l);
  launch_one_row<Format, 1>(a, l);
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_ONE_ROW)

}  // namespace rafter::kernels::cuda

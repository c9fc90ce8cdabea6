// Products of one row, the step of a single sequence: bound by memory, and at 4 bits nearly as much by the
// instructions between. A warp streams its slice of one tile after another through a ring of its own in shared
// memory; weights are on their way before the kernel's input is there. The input is prepared by every block for
// itself: each warp its own slice.
//
// Tried and slower: the next units in registers (at most 4 fit, 37 KB under way on an SM; the head of llama3-8b ran
// at 2,670 GB/s), and rings that are filled again only when half of them is used.
#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_tiles.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kBlocksPerProcessor = 3;
constexpr int kMostTiles = 4;  // that a block sums between two barriers

template <typename Format>
struct OneRowRing {
  static constexpr int kDepth = Format::kUnitBytes <= 640 ? 8 : Format::kUnitBytes <= 1152 ? 5 : 3;
  static constexpr int kWarpBytes = kDepth * Format::kUnitBytes, kBytes = kWarpBytes * kProductWarps;
};

template <typename Format>
__global__ void __launch_bounds__(kProductThreads, 3)
    one_row_kernel(const __grid_constant__ MatmulArgs a, int tiles_at_once, int own_log2, int blocks) {
  using Ring = OneRowRing<Format>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float exchange[2][kMostTiles][kProductWarps][kTileRows], parts[kProductWarps];
  start_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const int begin = slice_begin(warp, units, kProductWarps);
  const int count = slice_begin(warp + 1, units, kProductWarps) - begin;
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;

  const auto slice_of = [&](const BlockTiles& tiles, int tile) {
    return tiles.tile(a, tile, units * Format::kUnitBytes) + begin * Format::kUnitBytes + lane * 16;
  };
  // What is asked for next: the rest of a slice, and into which stage.
  int ahead_block = blockIdx.x, ahead_tile = 0, ahead_left = count;
  const uint8_t* ahead = slice_of(BlockTiles(a, ahead_block, own_log2), 0);
  uint8_t* const ring = shared + warp * Ring::kWarpBytes;
  uint8_t* ahead_stage = ring;
  const auto after = [&](uint8_t* stage) {
    return stage == ring + (Ring::kDepth - 1) * Format::kUnitBytes ? ring : stage + Format::kUnitBytes;
  };
  const auto copy_next = [&] {
    if (ahead_left == 0) {
      if (++ahead_tile == tiles_at_once) ahead_tile = 0, ahead_block += static_cast<int>(gridDim.x);
      if (ahead_block < blocks) ahead = slice_of(BlockTiles(a, ahead_block, own_log2), ahead_tile), ahead_left = count;
    }
    if (ahead_left > 0) {
#pragma unroll
      for (int at = 0; at < Format::kUnitBytes; at += 512) {
        if (at + 512 <= Format::kUnitBytes || lane * 16 < Format::kUnitBytes - at)
          copy_async(ahead_stage + at + lane * 16, ahead + at);
      }
      ahead += Format::kUnitBytes;
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

  const auto add = [&](const uint8_t* stage, int index, float (&total)[1][1][4]) {
    add_units<Format, true>(
        [&](int) { return SharedUnit<Format>{stage, lane}; },
        [&](int, int half) {
          uint4 b = {0, 0, 0, 0};
          if (g == 0) b = *reinterpret_cast<const uint4*>(x + index * kUnitColumns + half * 32 + t * 8);
          return b;
        },
        [&](int, int half) { return float2{x_sums[2 * index + half], 0}; }, total);
  };
  uint8_t* stage = ring;
  int turn = 0;
  for (int block = blockIdx.x; block < blocks; block += gridDim.x, turn ^= 1) {
    const BlockTiles tiles(a, block, own_log2);
    const MatmulSegment& segment = a.segments[tiles.segment];
    const int outputs = tiles.own * kTileRows;
    const int n = tiles.first * kTileRows + static_cast<int>(threadIdx.x);
    const bool has_output = static_cast<int>(threadIdx.x) < outputs && n < segment.weight.rows;
    float residual = 0;  // asked for early
    if (a.epilogue == MatmulEpilogue::add && has_output) residual = a.residual[n];

    for (int tile = 0; tile < tiles_at_once; ++tile) {
      float total[1][1][4] = {};
      for (int unit = begin; unit < begin + count; ++unit) {
        wait_copies<Ring::kDepth - 1>();
        __syncwarp();
        add(stage, unit, total);
        __syncwarp();
        copy_next();
        stage = after(stage);
      }
      if (t == 0) {
        exchange[turn][tile][warp][g] = total[0][0][0];
        exchange[turn][tile][warp][g + 8] = total[0][0][2];
      }
    }
    __syncthreads();
    if (!has_output) continue;
    const int tile = threadIdx.x / kTileRows, row = threadIdx.x % kTileRows;
    float value = 0, up = 0;
#pragma unroll
    for (int slice = 0; slice < kProductWarps; ++slice) {
      value += exchange[turn][tile][slice][row];
      if (gated) up += exchange[turn][tile + tiles_at_once / 2][slice][row];
    }
    segment.out[n] = finished(a, segment, n, value, up, residual);
  }
  wait_copies<0>();
}

}  // namespace

bool supports_one_row(const MatmulArgs& a, int64_t capacity) {
  constexpr int64_t kMostColumns = 20480;  // what fits into shared memory beside the ring, three times
  return capacity == 1 && a.columns <= kMostColumns;
}

template <typename Format>
void matmul_one_row(const MatmulArgs& a, const CudaLaunch& l) {
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  int tiles = 0;
  for (int s = 0; s < a.segment_count; ++s) tiles += tiles_of(a, s);
  const int resident = l.multiprocessors * kBlocksPerProcessor;
  const int at_once = tiles >= 8 * resident ? kMostTiles : gated ? 2 : 1, own_log2 = own_log2_of(a, at_once);
  const int blocks = all_blocks(a, own_log2);
  launch(one_row_kernel<Format>, static_cast<unsigned>(blocks < resident ? blocks : resident), kProductThreads,
         static_cast<size_t>(OneRowRing<Format>::kBytes + a.columns * 2 + a.columns / kSumColumns * 4), l.stream, a, at_once,
         own_log2, blocks);
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_ONE_ROW)

}  // namespace rafter::kernels::cuda

// Products of up to 16 rows: a block takes one to four tiles of 16 outputs at a time, each warp a slice of K. A warp
// streams its slice of one tile after another through a ring of its own in shared memory: no warp waits for
// another but to sum a tile, and weights are on their way before the kernel's inputs are there.
// The inputs come prepared, through the same ring.
#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_tiles.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int64_t kManyTiles = 2048;  // from here on (the head) a block takes several tiles at a time
constexpr int64_t kSomeTiles = 256;
constexpr int64_t kBlocksPerProcessor = 2;

// A warp's ring: stages of one unit of every tile of the block, and of the inputs.
template <typename Format, int kTiles, int kRowTiles>
struct Ring {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kWeights = kTiles * Format::kUnitBytes;
  static constexpr int kInputs = kRows * kUnitColumns * 2;
  static constexpr int kSums = 2 * kRows * 4;
  static constexpr int kStage = kWeights + kInputs + kSums;
  static constexpr int kDepth = kStage <= 2400 ? 4 : 3;
  static constexpr int kBatch = kDepth / 2;  // stages that are taken, and asked for again, at once
  static constexpr int kBytes = kStage * kDepth * kProductWarps;
  static constexpr int kExchange = kProductWarps * kTiles * kRows * kTileRows * 4;
};

// So that registers leave room for blocks of the kernel that comes next.
template <int kAccumulators>
constexpr int kMinBlocks = kAccumulators == 1 ? 4 : kAccumulators == 2 ? 3 : kAccumulators <= 4 ? 2 : 1;

template <typename Format, int kTiles, int kRowTiles>
__global__ void __launch_bounds__(kProductThreads, kMinBlocks<kTiles * kRowTiles>)
    rows_kernel(const __grid_constant__ MatmulArgs a, const __grid_constant__ PreparedRows prepared, int own_log2,
                int blocks) {
  using R = Ring<Format, kTiles, kRowTiles>;
  extern __shared__ __align__(128) uint8_t shared[];
  start_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const int begin = slice_begin(warp, units, kProductWarps);
  const int count = slice_begin(warp + 1, units, kProductWarps) - begin;
  uint8_t* const ring = shared + warp * (R::kStage * R::kDepth);

  // What is asked for next: unit `ahead` of the slice in the tiles of ahead_block, into stage ahead_stage.
  const uint8_t* ahead_base[kTiles];
  const auto find_tiles = [&](int block) {
    const BlockTiles tiles(a, block, own_log2);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) ahead_base[i] = tiles.tile(a, i, units * Format::kUnitBytes);
  };
  int ahead_block = blockIdx.x, ahead = 0, ahead_stage = 0;
  find_tiles(ahead_block);
  const auto copy_weights = [&] {
    uint8_t* const to = ring + ahead_stage * R::kStage;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint8_t* from = ahead_base[tile] + (begin + ahead) * Format::kUnitBytes;
#pragma unroll
      for (int at = 0; at < Format::kUnitBytes; at += 512) {
        if (at + 512 <= Format::kUnitBytes || lane * 16 < Format::kUnitBytes - at)
          copy_async(to + tile * Format::kUnitBytes + at + lane * 16, from + at + lane * 16);
      }
    }
  };
  const auto advance = [&] {
    ahead_stage = ahead_stage + 1 == R::kDepth ? 0 : ahead_stage + 1;
    if (++ahead < count) return;
    ahead = 0;
    ahead_block += gridDim.x;
    if (ahead_block < blocks) find_tiles(ahead_block);
  };
  const auto has_more = [&] { return count > 0 && ahead_block < blocks; };
  for (int i = 0; i < R::kDepth; ++i) {
    if (has_more()) {
      copy_weights();
      advance();
    }
    commit_copies();
  }
  wait_for_inputs();
  const int first_row = static_cast<int>(blockIdx.y) * R::kRows;
  const int rows = min(*a.rows - first_row, R::kRows);
  if (rows <= 0) {
    wait_copies<0>();
    return;
  }

  // Inputs: a lane's share of a unit.
  constexpr int kShares = R::kRows * 8 / 32;
  const __nv_bfloat16* share_from[kShares];
  int share_size[kShares], share_to[kShares];
  const float* sums_from = nullptr;
  int sums_to = 0;
#pragma unroll
  for (int i = 0; i < kShares; ++i) {
    const int row = (i * 32 + lane) / 8, at = lane % 8 * 16;
    share_from[i] = prepared.x + (first_row + (row < rows ? row : 0)) * a.columns + begin * kUnitColumns + at / 2;
    share_size[i] = row < rows ? 16 : 0;
    share_to[i] = R::kWeights + row * 128 + (at ^ (row & 1) << 6);
  }
  constexpr int kLanes = R::kRows / 4;  // each copies the sums of 4 rows
  if (Format::kHasCodes && lane < 2 * kLanes) {
    const int group = lane / kLanes, row = lane % kLanes * 4;
    sums_from = prepared.sums + (2 * begin + group) * prepared.sums_stride + first_row + row;
    sums_to = R::kWeights + R::kInputs + (group * R::kRows + row) * 4;
  }
  const auto copy_inputs = [&](int unit, int stage) {
    uint8_t* const to = ring + stage * R::kStage;
#pragma unroll
    for (int i = 0; i < kShares; ++i) copy_async(to + share_to[i], share_from[i] + unit * kUnitColumns, share_size[i]);
    if (sums_from != nullptr) copy_async(to + sums_to, sums_from + 2 * unit * prepared.sums_stride);
  };
  for (int i = 0, unit = 0; i < R::kDepth; ++i) {
    if (count > 0) copy_inputs(unit, i);
    commit_copies();
    unit = unit + 1 == count ? 0 : unit + 1;
  }

  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  constexpr int kOutputs = kTiles * kTileRows;
  const int outputs = gated ? kOutputs / 2 : kOutputs;  // of the block's tiles, per row
  int stage_index = 0;
  for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
    const BlockTiles tiles(a, block, own_log2);
    const MatmulSegment& segment = a.segments[tiles.segment];
    const auto output_of = [&](int i) { return tiles.first * kTileRows + i % outputs; };
    const auto address_of = [&](int i) {
      return int64_t{first_row + i / outputs} * segment.weight.rows + output_of(i);
    };
    float residual = 0;  // of this thread's first output, asked for early
    if (a.epilogue == MatmulEpilogue::add && static_cast<int>(threadIdx.x) < outputs * rows &&
        output_of(threadIdx.x) < segment.weight.rows)
      residual = a.residual[address_of(threadIdx.x)];

    float total[kTiles][kRowTiles][4] = {};
    for (int base = 0; base < count; base += R::kBatch) {
      wait_copies<R::kDepth - R::kBatch>();
      __syncwarp();
#pragma unroll
      for (int i = 0; i < R::kBatch; ++i) {
        if (base + i >= count) break;
        const int index = stage_index + i;
        const uint8_t* stage = ring + (index >= R::kDepth ? index - R::kDepth : index) * R::kStage;
        const uint8_t* const x = stage + R::kWeights;
        add_units<Format, false>(
            [&](int tile) { return SharedUnit<Format>{stage + tile * Format::kUnitBytes, lane}; },
            [&](int r, int half) {
              const int row = r * 8 + g;
              return *reinterpret_cast<const uint4*>(x + row * 128 + ((half * 64 + t * 16) ^ (row & 1) << 6));
            },
            [&](int r, int half) {
              return *reinterpret_cast<const float2*>(x + R::kInputs + (half * R::kRows + r * 8 + 2 * t) * 4);
            },
            total);
      }
      __syncwarp();
      const int taken = min(R::kBatch, count - base);
      stage_index += taken;
      if (stage_index >= R::kDepth) stage_index -= R::kDepth;
      for (int i = 0; i < taken; ++i) {
        if (has_more()) {
          copy_weights();
          copy_inputs(ahead, ahead_stage);
          advance();
        }
        commit_copies();
      }
    }

    auto* const exchange = reinterpret_cast<float*>(shared + R::kBytes);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int row = r * 8 + 2 * t + c % 2;
          if (row < rows)
            exchange[((warp * R::kRows + row) * kTiles + tile) * kTileRows + g + c / 2 * 8] = total[tile][r][c];
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < outputs * rows; i += kProductThreads) {
      const int64_t n = output_of(i);
      if (n >= segment.weight.rows) continue;
      float value = 0, up = 0;
      const float* sums = exchange + i / outputs * kOutputs + i % outputs;
#pragma unroll
      for (int slice = 0; slice < kProductWarps; ++slice) {
        value += sums[slice * R::kRows * kOutputs];
        if (gated) up += sums[slice * R::kRows * kOutputs + outputs];
      }
      const int64_t at = address_of(i);
      if (a.epilogue == MatmulEpilogue::add && i >= kProductThreads) residual = a.residual[at];
      segment.out[at] = finished(a, segment, n, value, up, residual);
    }
    __syncthreads();
  }
  wait_copies<0>();
}

template <typename Format, int kTiles, int kRowTiles>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  using R = Ring<Format, kTiles, kRowTiles>;
  const int own_log2 = own_log2_of(a, kTiles), blocks = all_blocks(a, own_log2);
  const int64_t resident = l.multiprocessors * kBlocksPerProcessor;
  const dim3 grid(static_cast<unsigned>(blocks < resident ? blocks : resident),
                  static_cast<unsigned>((l.capacity + R::kRows - 1) / R::kRows));
  launch(rows_kernel<Format, kTiles, kRowTiles>, grid, kProductThreads,
         R::kBytes + R::kExchange, l.stream, a, prepared,
         own_log2, blocks);
}

template <typename Format, int kRowTiles>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  int64_t tiles = 0;
  for (int s = 0; s < a.segment_count; ++s) tiles += tiles_of(a, s);
  constexpr int kMost = Format::kHasCodes ? 4 : 2;
  if (tiles >= kManyTiles && a.epilogue != MatmulEpilogue::swiglu)
    return launch_rows<Format, kMost, kRowTiles>(a, prepared, l);
  if (a.epilogue == MatmulEpilogue::swiglu || tiles >= kSomeTiles)
    return launch_rows<Format, 2, kRowTiles>(a, prepared, l);
  return launch_rows<Format, 1, kRowTiles>(a, prepared, l);
}

}  // namespace

template <typename Format>
void matmul_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  if (l.capacity <= 8) return launch_rows<Format, 1>(a, prepared, l);
  launch_rows<Format, 2>(a, prepared, l);
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_ROWS)

}  // namespace rafter::kernels::cuda

// Products of many rows: a block of 8 warps computes 128 outputs of 64 rows, a warp 32 × 32; two blocks share
// an SM, so that one computes while the other waits. Weights and inputs go through a ring in shared memory
// that the whole block shares; weights are expanded in registers, unit by unit. The sums of whole slices wait
// in shared memory: they change 8 times in all.
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 256, kRows = 64, kTiles = 8;  // of the block; tiles of 16 outputs
constexpr int kWarpTiles = 2, kWarpRowTiles = 4;       // of a warp; rows in tiles of 8
constexpr int kSums = kWarpTiles * kWarpRowTiles * 4;  // a thread's

// A stage holds a unit of all tiles of the block; GPUs with little shared memory have one stage fewer.
template <typename Format>
struct Stage {
  static constexpr int kWeights = kTiles * Format::kUnitBytes, kInputs = kRows * kUnitColumns * 2;
  static constexpr int kBytes = kWeights + kInputs + 2 * kRows * 4;
  static constexpr int kSumsBytes = kSums * kThreads * 4;
  static constexpr int kMostStages = Format::kHasCodes ? 4 : 3;
  static constexpr int kLeastStages =
      kMostStages * kBytes + kSumsBytes <= kLeastSharedBytes ? kMostStages : kMostStages - 1;
  static_assert(kLeastStages * kBytes + kSumsBytes <= kLeastSharedBytes);
  static constexpr int kChunks = kWeights / 16, kChunksPerThread = (kChunks + kThreads - 1) / kThreads;
};

template <typename Format, int kStages>
__global__ void __launch_bounds__(kThreads, Format::kPlanes == 2 ? 1 : 2)
    prompt_kernel(const __grid_constant__ MatmulArgs a, const __grid_constant__ PreparedRows prepared) {
  using S = Stage<Format>;
  extern __shared__ __align__(128) uint8_t shared[];
  start_next();
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int warp_tiles = warp / 2, warp_rows = warp % 2 * (kWarpRowTiles * 8);
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  const int own = gated ? kTiles / 2 : kTiles;

  int64_t block = blockIdx.y;
  int segment_index = 0;
  const auto tiles_of = [&](int s) { return (a.segments[s].weight.rows + kTileRows - 1) / kTileRows; };
  for (; !gated && segment_index + 1 < a.segment_count; ++segment_index) {
    const int64_t blocks = (tiles_of(segment_index) + own - 1) / own;
    if (block < blocks) break;
    block -= blocks;
  }
  const MatmulSegment& segment = a.segments[segment_index];
  const int64_t first_tile = block * own, last_tile = tiles_of(segment_index) - 1;

  // Of a stage's weights, a thread copies 16 bytes here and there; tiles of gate and up alternate.
  const uint8_t* from[S::kChunksPerThread];
#pragma unroll
  for (int i = 0; i < S::kChunksPerThread; ++i) {
    const int chunk = i * kThreads + thread, slot = chunk / (Format::kUnitBytes / 16);
    const bool up = gated && slot % 2 == 1;
    const int64_t tile = first_tile + (gated ? slot / 2 : slot);
    from[i] = device_bytes(a.segments[up ? 1 : segment_index].weight.data) +
              (tile < last_tile ? tile : last_tile) * units * Format::kUnitBytes +
              chunk % (Format::kUnitBytes / 16) * 16;
  }
  const auto copy_weights = [&](int unit) {
    uint8_t* const to = shared + unit % kStages * S::kBytes;
#pragma unroll
    for (int i = 0; i < S::kChunksPerThread; ++i) {
      if (i * kThreads + thread < S::kChunks)
        copy_async(to + (i * kThreads + thread) * 16, from[i] + int64_t{unit} * Format::kUnitBytes);
    }
  };
  for (int unit = 0; unit < kStages - 1 && unit < units; ++unit) copy_weights(unit);

  wait_for_inputs();
  const int first_row = static_cast<int>(blockIdx.x) * kRows, rows = min(*a.rows - first_row, kRows);
  if (rows <= 0) {
    commit_copies();
    wait_copies<0>();
    return;
  }
  const auto copy_inputs = [&](int unit) {
    uint8_t* const to = shared + unit % kStages * S::kBytes + S::kWeights;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (i * kThreads + thread) / 8, at = thread % 8 * 16;
      copy_async(
          to + row * 128 + (at ^ (row & 1) << 6),
          prepared.x + int64_t{first_row + (row < rows ? row : 0)} * a.columns + unit * kUnitColumns + at / 2,
          row < rows ? 16 : 0);
    }
    if (Format::kHasCodes && thread < kRows / 2) {
      const int group = thread / (kRows / 4), row = thread % (kRows / 4) * 4;
      copy_async(to + S::kInputs + (group * kRows + row) * 4,
                 prepared.sums + (2 * int64_t{unit} + group) * prepared.sums_stride + first_row + row);
    }
  };
  for (int unit = 0; unit < kStages - 1; ++unit) {
    if (unit < units) copy_inputs(unit);
    commit_copies();
  }

  float* const slices = reinterpret_cast<float*>(shared + kStages * S::kBytes) + thread;
#pragma unroll
  for (int i = 0; i < kSums; ++i) slices[i * kThreads] = 0;
  float total[kWarpTiles][kWarpRowTiles][4] = {};
  const auto end_slice = [&] {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      float& sum = total[i / (kWarpRowTiles * 4)][i / 4 % kWarpRowTiles][i % 4];
      slices[i * kThreads] += sum;
      sum = 0;
    }
  };
  int slice = 0, slice_end = slice_begin(1, units, kProductWarps);
  for (int unit = 0; unit < units; ++unit) {
    wait_copies<kStages - 2>();
    __syncthreads();
    if (unit + kStages - 1 < units) {
      copy_weights(unit + kStages - 1);
      copy_inputs(unit + kStages - 1);
    }
    commit_copies();
    while (unit >= slice_end) {
      end_slice();
      ++slice;
      slice_end = slice_begin(slice + 1, units, kProductWarps);
    }
    const uint8_t* stage = shared + unit % kStages * S::kBytes;
    const uint8_t* x = stage + S::kWeights;
    const auto inputs = [&](int tile, int half) {
      const int row = warp_rows + tile * 8 + g;
      return *reinterpret_cast<const uint4*>(x + row * 128 + ((half * 64 + t * 16) ^ (row & 1) << 6));
    };
    const auto sums = [&](int tile, int half) {
      return *reinterpret_cast<const float2*>(x + S::kInputs +
                                              (half * kRows + warp_rows + tile * 8 + 2 * t) * 4);
    };
    const auto unit_of = [&](int tile) {
      return SharedUnit<Format>{stage + (warp_tiles * kWarpTiles + tile) * Format::kUnitBytes, lane};
    };
    add_units<Format, false>(unit_of, inputs, sums, total);
  }
  end_slice();

#pragma unroll
  for (int tile = 0; tile < kWarpTiles; ++tile) {
    if (gated && tile == 1) continue;
    const int64_t tile_row = first_tile + (gated ? warp_tiles : warp_tiles * kWarpTiles + tile);
#pragma unroll
    for (int i = 0; i < kWarpRowTiles * 4; ++i) {
      const int row = warp_rows + i / 4 * 8 + 2 * t + i % 2;
      const int64_t n = tile_row * kTileRows + g + i % 4 / 2 * 8;
      if (row >= rows || n >= segment.weight.rows) continue;
      const int64_t at = int64_t{first_row + row} * segment.weight.rows + n;
      const float value = slices[(tile * kWarpRowTiles * 4 + i) * kThreads];
      const float up = gated ? slices[(kWarpRowTiles * 4 + i) * kThreads] : 0;
      const float residual = a.epilogue == MatmulEpilogue::add ? a.residual[at] : 0;
      segment.out[at] = finished(a, segment, n, value, up, residual);
    }
  }
}

}  // namespace

template <typename Format>
void matmul_prompt(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  const int outputs = (gated ? kTiles / 2 : kTiles) * kTileRows;
  int64_t blocks = 0;
  for (int s = 0; s < (gated ? 1 : a.segment_count); ++s)
    blocks += (a.segments[s].weight.rows + outputs - 1) / outputs;
  const dim3 grid(static_cast<unsigned>((l.capacity + kRows - 1) / kRows), static_cast<unsigned>(blocks));
  using S = Stage<Format>;
  const auto launch_with = [&](auto stages) {
    constexpr int kStages = decltype(stages)::value, kShared = kStages * S::kBytes + S::kSumsBytes;
    if (kShared > l.shared_bytes) return false;
    launch(prompt_kernel<Format, kStages>, grid, kThreads, kShared, l.stream, a, prepared);
    return true;
  };
  if (!launch_with(std::integral_constant<int, S::kMostStages>{}))
    launch_with(std::integral_constant<int, S::kLeastStages>{});
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_PROMPT)

}  // namespace rafter::kernels::cuda

// Products of up to 16 rows: a block computes one to four tiles of 16 outputs, each warp a slice of K. A warp
// streams its slice through a ring of its own in shared memory, so no warp waits for another before the last
// sum; the ring is filled before the kernel's inputs are there.
//
// One or two rows: each block prepares them for itself in shared memory. More: they come prepared, through the
// same ring as the weights.
#include <cuda_bf16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kOwnRows = 2;           // rows that blocks prepare for themselves
constexpr int kOwnPad = 32;           // bf16 between them: 64 bytes, against bank conflicts
constexpr int64_t kManyTiles = 2048;  // from here on (the head) a block takes several tiles
constexpr int64_t kSomeTiles = 256;

// A warp's ring: stages of one unit of every tile of the block, and of the inputs if they come prepared.
template <typename Format, int kTiles, int kRowTiles, bool kOwn>
struct Ring {
  static constexpr int kRows = kOwn ? kOwnRows : 8 * kRowTiles;
  static constexpr int kWeights = kTiles * Format::kUnitBytes;
  static constexpr int kInputs = kOwn ? 0 : kRows * kUnitColumns * 2;
  static constexpr int kSums = kOwn ? 0 : 2 * kRows * 4;
  static constexpr int kStage = kWeights + kInputs + kSums;
  static constexpr int kDepth = kStage <= 640 ? 8 : kStage <= 1280 ? 6 : kStage <= 2400 ? 4 : 3;
  static constexpr int kBatch = kDepth / 2;  // stages that are taken, and asked for again, at once
  static constexpr int kBytes = kStage * kDepth * kProductWarps;
  static constexpr int kExchange = kProductWarps * kTiles * kRows * kTileRows * 4;
};

template <typename Format, int kTiles, int kRowTiles, bool kOwn>
int64_t shared_bytes(int64_t columns) {
  using R = Ring<Format, kTiles, kRowTiles, kOwn>;
  if (!kOwn) return R::kBytes > R::kExchange ? R::kBytes : R::kExchange;
  return R::kBytes + R::kExchange + kOwnRows * (columns + kOwnPad) * 2 + columns / kSumColumns * kOwnRows * 4;
}

// Where the block's tiles are: of one segment, or half gate and half up.
template <typename Format, int kTiles>
struct BlockTiles {
  int segment = 0;
  int64_t first = 0;  // tile within the segment
  const uint8_t* base[kTiles];

  __device__ BlockTiles(const MatmulArgs& a, int64_t block) {
    const bool gated = a.epilogue == MatmulEpilogue::swiglu;
    const int own = gated ? kTiles / 2 : kTiles;
    for (;; ++segment) {
      const int64_t blocks = (tiles_of(a, segment) + own - 1) / own;
      if (block < blocks || segment + 1 >= a.segment_count) break;
      block -= blocks;
    }
    first = block * own;
    const int64_t tile_bytes = a.columns / kUnitColumns * Format::kUnitBytes, last = tiles_of(a, segment) - 1;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const bool up = gated && i >= own;
      const int64_t tile = first + (up ? i - own : i);  // one beyond the end is read as the last, and unused
      base[i] = device_bytes(a.segments[up ? 1 : segment].weight.data) + (tile < last ? tile : last) * tile_bytes;
    }
  }
  __device__ static int64_t tiles_of(const MatmulArgs& a, int segment) {
    return (a.segments[segment].weight.rows + kTileRows - 1) / kTileRows;
  }
};

template <typename Format, int kTiles, int kRowTiles, bool kOwn>
__global__ void __launch_bounds__(kProductThreads)
    rows_kernel(const __grid_constant__ MatmulArgs a, const __grid_constant__ PreparedRows prepared) {
  using R = Ring<Format, kTiles, kRowTiles, kOwn>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float parts[kProductWarps];
  start_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const int begin = slice_begin(warp, units, kProductWarps);
  const int count = slice_begin(warp + 1, units, kProductWarps) - begin;
  const BlockTiles<Format, kTiles> tiles(a, blockIdx.x);
  uint8_t* const ring = shared + warp * (R::kStage * R::kDepth);

  const auto copy_weights = [&](int i) {
    if (i >= count) return;
    uint8_t* const to = ring + i % R::kDepth * R::kStage;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint8_t* from = tiles.base[tile] + int64_t{begin + i} * Format::kUnitBytes;
#pragma unroll
      for (int at = lane * 16; at < Format::kUnitBytes; at += 512)
        copy_async(to + tile * Format::kUnitBytes + at, from + at);
    }
  };
  for (int i = 0; i < R::kDepth; ++i) {
    copy_weights(i);
    commit_copies();
  }
  RowPreparer preparer(a);

  wait_for_inputs();
  const int first_row = static_cast<int>(blockIdx.y) * R::kRows;
  const int rows = min(*a.rows - first_row, R::kRows);
  if (rows <= 0) {
    wait_copies<0>();
    return;
  }
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  constexpr int kOutputs = kTiles * kTileRows;
  const int outputs = gated ? kOutputs / 2 : kOutputs;  // of the block, per row
  const MatmulSegment& segment = a.segments[tiles.segment];
  const auto output_of = [&](int i) { return tiles.first * kTileRows + i % outputs; };
  const auto address_of = [&](int i) {
    return int64_t{first_row + i / outputs} * segment.weight.rows + output_of(i);
  };
  float residual = 0;  // of this thread's first output, asked for early
  if (a.epilogue == MatmulEpilogue::add && static_cast<int>(threadIdx.x) < outputs * rows &&
      output_of(threadIdx.x) < segment.weight.rows)
    residual = a.residual[address_of(threadIdx.x)];

  const auto copy_inputs = [&](int i) {
    if (kOwn || i >= count) return;
    uint8_t* const to = ring + i % R::kDepth * R::kStage + R::kWeights;
    const int64_t unit = begin + i;
#pragma unroll
    for (int c = lane; c < R::kRows * 8; c += 32) {
      const int row = c / 8, at = c % 8 * 16;
      copy_async(to + row * 128 + (at ^ (row & 1) << 6),
                 prepared.x + (first_row + (row < rows ? row : 0)) * a.columns + unit * kUnitColumns + at / 2,
                 row < rows ? 16 : 0);
    }
    constexpr int kLanes = R::kRows >= 4 ? R::kRows / 4 : 1;  // each copies the sums of 4 rows
    if (lane < 2 * kLanes) {
      const int group = lane / kLanes, row = lane % kLanes * 4;
      copy_async(to + R::kInputs + (group * R::kRows + row) * 4,
                 prepared.sums + (2 * unit + group) * prepared.sums_stride + first_row + row);
    }
  };
  auto* const own_x = reinterpret_cast<__nv_bfloat16*>(shared + R::kBytes + R::kExchange);
  auto* const own_sums = reinterpret_cast<float*>(own_x + kOwnRows * (a.columns + kOwnPad));
  if constexpr (kOwn) {
    for (int row = 0; row < rows; ++row)
      preparer.prepare(first_row + row, parts, own_x + row * (a.columns + kOwnPad), own_sums + row, kOwnRows);
    __syncthreads();
  } else {
    for (int i = 0; i < R::kDepth; ++i) {
      copy_inputs(i);
      commit_copies();
    }
  }

  float total[kTiles][kRowTiles][4] = {};
  for (int base = 0; base < count; base += R::kBatch) {
    wait_copies<R::kDepth - R::kBatch>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < R::kBatch; ++i) {
      if (base + i >= count) continue;
      const uint8_t* stage = ring + (base + i) % R::kDepth * R::kStage;
      const int unit = begin + base + i;
      uint4 b[kRowTiles][2];
      float2 sums[kRowTiles][2];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if constexpr (kOwn) {
            b[tile][half] = make_uint4(0, 0, 0, 0);
            sums[tile][half] = {0, 0};
            if (g < rows)
              b[tile][half] = *reinterpret_cast<const uint4*>(own_x + g * (a.columns + kOwnPad) +
                                                              unit * kUnitColumns + half * 32 + t * 8);
            if (Format::kHasCodes && t == 0)
              sums[tile][half] = {own_sums[(2 * unit + half) * kOwnRows],
                                  rows > 1 ? own_sums[(2 * unit + half) * kOwnRows + 1] : 0};
          } else {
            const int row = tile * 8 + g;
            b[tile][half] = *reinterpret_cast<const uint4*>(stage + R::kWeights + row * 128 +
                                                            ((half * 64 + t * 16) ^ (row & 1) << 6));
            sums[tile][half] = *reinterpret_cast<const float2*>(stage + R::kWeights + R::kInputs +
                                                                (half * R::kRows + tile * 8 + 2 * t) * 4);
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        add_unit<Format, kRowTiles>(
            stage + tile * Format::kUnitBytes, lane, [&](int r, int half) { return b[r][half]; },
            [&](int r, int half) { return sums[r][half]; }, total[tile]);
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < R::kBatch; ++i) {
      copy_weights(base + R::kDepth + i);
      copy_inputs(base + R::kDepth + i);
      commit_copies();
    }
  }

  auto* const exchange = reinterpret_cast<float*>(shared + (kOwn ? R::kBytes : 0));
  if constexpr (!kOwn) {  // the exchange lies over the rings
    wait_copies<0>();
    __syncthreads();
  }
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
}

template <typename Format, int kTiles, int kRowTiles, bool kOwn>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  using R = Ring<Format, kTiles, kRowTiles, kOwn>;
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  const int own = gated ? kTiles / 2 : kTiles;
  int64_t blocks = 0;
  for (int s = 0; s < (gated ? 1 : a.segment_count); ++s)
    blocks += (a.segments[s].weight.rows + own * kTileRows - 1) / (own * kTileRows);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((l.capacity + R::kRows - 1) / R::kRows));
  launch(rows_kernel<Format, kTiles, kRowTiles, kOwn>, grid, kProductThreads,
         static_cast<size_t>(shared_bytes<Format, kTiles, kRowTiles, kOwn>(a.columns)), l.stream, a, prepared);
}

template <typename Format, int kRowTiles, bool kOwn>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  int64_t tiles = 0;
  for (int s = 0; s < a.segment_count; ++s) tiles += (a.segments[s].weight.rows + kTileRows - 1) / kTileRows;
  constexpr int kMost = Format::kHasCodes ? 4 : 2;
  if (tiles >= kManyTiles && a.epilogue != MatmulEpilogue::swiglu)
    return launch_rows<Format, kMost, kRowTiles, kOwn>(a, prepared, l);
  if (a.epilogue == MatmulEpilogue::swiglu || (!kOwn && tiles >= kSomeTiles))
    return launch_rows<Format, 2, kRowTiles, kOwn>(a, prepared, l);
  return launch_rows<Format, 1, kRowTiles, kOwn>(a, prepared, l);
}

}  // namespace

bool prepares_own_rows(const MatmulArgs& a, int64_t capacity) {
  constexpr int64_t kMostColumns = 16384;  // what fits into shared memory beside the rings
  return capacity <= kOwnRows && a.columns <= kMostColumns;
}

template <typename Format>
void matmul_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  if (prepares_own_rows(a, l.capacity)) return launch_rows<Format, 1, true>(a, prepared, l);
  if (l.capacity <= 8) return launch_rows<Format, 1, false>(a, prepared, l);
  launch_rows<Format, 2, false>(a, prepared, l);
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_ROWS)

}  // namespace rafter::kernels::cuda

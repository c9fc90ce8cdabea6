// Products of 2 to 16 rows. A block takes 8 · kTiles tiles of 16 outputs: the rows, shared by its warps, are
// read once, and each warp streams the weights of its own tiles through a ring in shared memory. Where there
// are too few tiles for that, a block takes one slice of K only: its sums go to scratch, and the warp that is
// last of its tiles' slices adds them, in ascending order either way.
//
// Tried and slower: all slices of one tile in a block, as for one row. Each block then reads all of the rows:
// for the down projection of llama3-8b twice the weights' bytes.
// And rounding the floats of rows without a norm here instead of in a launch before: the kernel's code grows,
// which costs every product up to 1 µs, and a slice of floats is twice the bytes.
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

constexpr int kSlices = kProductWarps;

// A slice of the rows in shared memory: [unit][row] 128 bytes of inputs, halves swapped in odd rows against
// bank conflicts; then [32 columns][row] sums.
constexpr int slice_bytes(int rows, int units) { return units * rows * (kUnitColumns * 2 + 2 * 4); }
int most_slice_units(int64_t columns) {
  return static_cast<int>((columns / kUnitColumns + kSlices - 1) / kSlices);
}

// Where in the slice the 16 bytes at byte `at` of a row's unit are.
template <int kRows>
__device__ inline int input_at(int unit, int row, int at) {
  return (unit * kRows + row) * 128 + (at ^ (row & 1) << 6);
}

// The sums of a slice's inputs, for rows that come without: in the order of RowPreparer.
template <int kRows>
__device__ void sum_slice(const uint8_t* x, int units, uint8_t* x_sums) {
#pragma unroll 1
  for (int part = threadIdx.x; part < units * kRows * 8; part += kProductThreads) {  // of 8 columns
    const int unit = part / (kRows * 8), row = part / 8 % kRows;
    const uint4 values = *reinterpret_cast<const uint4*>(x + input_at<kRows>(unit, row, part % 8 * 16));
    float sum = 0;
    for (const uint32_t pair : {values.x, values.y, values.z, values.w}) {
      sum += __uint_as_float(pair << 16);
      sum += __uint_as_float(pair & 0xFFFF0000);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (part % 4 == 0)
      *reinterpret_cast<float*>(x_sums + ((2 * unit + part % 8 / 4) * kRows + row) * 4) = sum;
  }
}

// Leaves a warp's sums of a slice in scratch, [slice][sum][lane] of the group of tiles, as the warp holds
// them. True for the warp that comes last, which gets the sums of all slices.
template <int kSums>
__device__ bool add_slices(float* partial, int32_t* counters, int64_t group, int slice, const float* total,
                           float* sums) {
  const int lane = threadIdx.x % 32;
  float* const own = partial + group * (kSlices * kSums * 32) + lane;
#pragma unroll
  for (int i = 0; i < kSums; ++i) __stcg(own + (slice * kSums + i) * 32, total[i]);
  __threadfence();
  __syncwarp();
  int arrived = 0;
  if (lane == 0) arrived = atomicAdd(counters + group, 1);
  if (__shfl_sync(~0u, arrived, 0) != kSlices - 1) return false;
  if (lane == 0) counters[group] = 0;
  __threadfence();
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] += __ldcg(own + (s * kSums + i) * 32);
  }
  return true;
}

template <typename Format, int kTiles, int kRowTiles>
__global__ void __launch_bounds__(kProductThreads, 2)
    rows_kernel(const __grid_constant__ MatmulArgs a, const __grid_constant__ PreparedRows prepared,
                int own_log2, int blocks, int block_slices, float* partial, int32_t* counters,
                bool bf16_out) {
  using Ring = WeightRing<Format, kTiles>;
  constexpr int kRows = 8 * kRowTiles;
  extern __shared__ __align__(128) uint8_t shared[];
  start_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const bool whole = block_slices == kSlices;
  int slice = whole ? 0 : static_cast<int>(blockIdx.x) % kSlices;
  const int group =  // of kTiles tiles
      (whole ? static_cast<int>(blockIdx.x) : static_cast<int>(blockIdx.x) / kSlices) * kProductWarps + warp;
  const int units = static_cast<int>(a.columns / kUnitColumns);
  const int begin = slice_begin(slice, units, kSlices),
            count = slice_begin(slice + block_slices, units, kSlices) - begin;
  const bool has_tiles = group < blocks;

  const BlockTiles tiles(a, has_tiles ? group : blocks - 1, own_log2);
  const uint8_t* ahead[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
    ahead[i] = tiles.tile(a, i, units * Format::kUnitBytes) + begin * Format::kUnitBytes + lane * 16;
  uint8_t* const ring = shared + warp * Ring::kWarpBytes;
  uint8_t* ahead_stage = ring;
  int ahead_left = has_tiles ? count : 0;
  const auto after = [&](uint8_t* stage) {
    return stage == ring + (Ring::kDepth - 1) * Ring::kStage ? ring : stage + Ring::kStage;
  };
  const auto copy_next = [&] {
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

  wait_for_inputs();
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  const int rows = min(*a.rows - first_row, kRows);
  if (rows <= 0) {
    wait_copies<0>();
    return;
  }
  uint8_t* const x = shared + Ring::kBytes;
  uint8_t* const x_sums = x + count * kRows * 128;
  for (int i = threadIdx.x; i < count * kRows * 8; i += kProductThreads) {
    const int unit = i / (kRows * 8), row = i / 8 % kRows, at = i % 8 * 16;
    copy_async(x + input_at<kRows>(unit, row, at),
               prepared.x + int64_t{first_row + (row < rows ? row : 0)} * a.columns +
                   (begin + unit) * kUnitColumns + at / 2,
               row < rows ? 16 : 0);
  }
  if (Format::kHasCodes && prepared.sums != nullptr) {
    for (int i = threadIdx.x; i < count * 2 * (kRows / 4); i += kProductThreads) {
      const int sum = i / (kRows / 4), row = i % (kRows / 4) * 4;
      copy_async(x_sums + (sum * kRows + row) * 4,
                 prepared.sums + int64_t{2 * begin + sum} * prepared.sums_stride + first_row + row);
    }
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  if (Format::kHasCodes && prepared.sums == nullptr) {
    sum_slice<kRows>(x, count, x_sums);
    __syncthreads();
  }
  if (!has_tiles) return;

  constexpr int kSums = kTiles * kRowTiles * 4;
  float total[kTiles][kRowTiles][4] = {}, sums[kTiles][kRowTiles][4] = {};
  const auto end_slice = [&] {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      float& value = total[i / (kRowTiles * 4)][i / 4 % kRowTiles][i % 4];
      sums[i / (kRowTiles * 4)][i / 4 % kRowTiles][i % 4] += value;
      value = 0;
    }
  };
  uint8_t* stage = ring;
  int slice_end = slice_begin(slice + 1, units, kSlices) - begin;
  for (int unit = 0; unit < count; ++unit) {
    while (whole && unit >= slice_end) {
      end_slice();
      slice_end = slice_begin(++slice + 1, units, kSlices);
    }
    wait_copies<Ring::kDepth - 1>();
    __syncwarp();
    add_units<Format, false>(
        [&](int tile) { return SharedUnit<Format>{stage + tile * Format::kUnitBytes, lane}; },
        [&](int r, int half) {
          const int row = r * 8 + g;
          return *reinterpret_cast<const uint4*>(x + input_at<kRows>(unit, row, half * 64 + t * 16));
        },
        [&](int r, int half) {
          return *reinterpret_cast<const float2*>(x_sums + ((2 * unit + half) * kRows + r * 8 + 2 * t) * 4);
        },
        total);
    __syncwarp();
    copy_next();
    stage = after(stage);
  }
  wait_copies<0>();

  if (whole) {
    end_slice();
  } else if (!add_slices<kSums>(partial, counters, int64_t{blockIdx.y} * blocks + group, slice,
                                &total[0][0][0], &sums[0][0][0])) {
    return;
  }
  const MatmulSegment& segment = a.segments[tiles.segment];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile >= tiles.own) continue;
#pragma unroll
    for (int i = 0; i < kRowTiles * 4; ++i) {
      const int row = i / 4 * 8 + 2 * t + i % 2;
      const int64_t n = int64_t{tiles.first + tile} * kTileRows + g + i % 4 / 2 * 8;
      if (row >= rows || n >= segment.weight.rows) continue;
      const int64_t at = int64_t{first_row + row} * segment.weight.rows + n;
      const float up = kTiles > 1 && a.epilogue == MatmulEpilogue::swiglu
                           ? sums[(tile + kTiles / 2) % kTiles][i / 4][i % 4]
                           : 0;
      const float residual = a.epilogue == MatmulEpilogue::add ? a.residual[at] : 0;
      const float value = finished(a, segment, n, sums[tile][i / 4][i % 4], up, residual);
      if (bf16_out)
        reinterpret_cast<__nv_bfloat16*>(segment.out)[at] = __float2bfloat16_rn(value);
      else
        segment.out[at] = value;
    }
  }
}

template <typename Format, int kTiles, int kRowTiles>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  constexpr int kRows = 8 * kRowTiles;
  const int own_log2 = own_log2_of(a, kTiles), blocks = all_blocks(a, own_log2);
  const int groups = (blocks + kProductWarps - 1) / kProductWarps,
            units = static_cast<int>(a.columns / kUnitColumns);
  const bool whole = groups >= l.multiprocessors * 3 / 4 &&
                     WeightRing<Format, kTiles>::kBytes + slice_bytes(kRows, units) <= l.shared_bytes;
  const int slices = whole ? kSlices : 1;
  const dim3 grid(static_cast<unsigned>(whole ? groups : groups * kSlices),
                  static_cast<unsigned>((l.capacity + kRows - 1) / kRows));
  const auto shared = static_cast<size_t>(WeightRing<Format, kTiles>::kBytes +
                                          slice_bytes(kRows, whole ? units : most_slice_units(a.columns)));
  auto* const partial = reinterpret_cast<float*>(l.scratch + prepared_bytes(a.columns, l.capacity));
  launch(rows_kernel<Format, kTiles, kRowTiles>, grid, kProductThreads, shared, l.stream, a, prepared,
         own_log2, blocks, slices, partial, l.counters, l.bf16_out);
}

int row_tiles(int64_t capacity) { return capacity <= 8 ? 1 : 2; }

// With a slice of the rows.
bool fits(const MatmulArgs& a, int tiles, const CudaLaunch& l) {
  const int unit_bytes = tile_layout(a.segments[0].weight).unit_bytes();
  return rings_bytes(unit_bytes, tiles) +
             slice_bytes(8 * row_tiles(l.capacity), most_slice_units(a.columns)) <=
         l.shared_bytes;
}

// Tiles of a warp, 0 if no number of them fits: two, unless that leaves multiprocessors without work.
int choose_tiles(const MatmulArgs& a, const CudaLaunch& l) {
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  if ((gated || all_blocks(a, own_log2_of(a, 2)) >= l.multiprocessors * 3 / 4) && fits(a, 2, l)) return 2;
  return !gated && fits(a, 1, l) ? 1 : 0;
}

template <typename Format, int kRowTiles>
void launch_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  if (choose_tiles(a, l) == 2) return launch_rows<Format, 2, kRowTiles>(a, prepared, l);
  launch_rows<Format, 1, kRowTiles>(a, prepared, l);
}

}  // namespace

bool supports_rows(const MatmulArgs& a, const CudaLaunch& l) {
  constexpr int64_t kMostRows = 32;  // beyond, tiles of 64 rows read the weights fewer times
  int64_t tiles = 0;
  for (int s = 0; s < a.segment_count; ++s) tiles += tiles_of(a, s);
  return l.capacity <= kMostRows && tiles * 2 <= kLaunchCounters && choose_tiles(a, l) > 0;
}

// Every row tile's sums of every slice.
int64_t rows_scratch(const MatmulArgs& a, int64_t capacity) {
  constexpr int64_t kRows = 16;
  int64_t tiles = 0;
  for (int s = 0; s < a.segment_count; ++s)
    tiles += tiles_of(a, s) + 1;  // a segment's last block may be half empty
  return (capacity + kRows - 1) / kRows * kRows * tiles * kTileRows * kSlices *
         static_cast<int64_t>(sizeof(float));
}

template <typename Format>
void matmul_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l) {
  if (row_tiles(l.capacity) == 1) return launch_rows<Format, 1>(a, prepared, l);
  launch_rows<Format, 2>(a, prepared, l);
}

RAFTER_FOR_TILE_FORMATS(RAFTER_INSTANTIATE_MATMUL_ROWS)

}  // namespace rafter::kernels::cuda

// Matrix products. Two bodies:
//
//   mma_*     bf16 inputs with bf16 or affine 4/8-bit weights, on the tensor cores: one block computes 16
//   outputs of
//             up to 16 rows, its 8 warps take every eighth unit of K. Codes go in exactly (0 … 255 fit bf16);
//             a unit's sum is scaled once: Σ_g (scale_g · Σ code·x + bias_g · Σ x).
//   generic   everything else, element by element in fp32: right, not fast.
//
// Both have one order of the sum over K whatever the number of rows. MatmulChoice is the one chooser.
#include <cuda_bf16.h>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/weight_element.cuh"

namespace rafter::kernels::cuda {
namespace {

using tensor::DType;
using tensor::FormatKind;

constexpr int kThreads = 256, kWarps = kThreads / 32, kTileOutputs = 16;
constexpr int64_t kSharedInput = 40 * 1024;  // inputs up to this size are prepared by every block for itself
constexpr int kPad = 8;                      // bf16 between prepared rows, against bank conflicts

enum class MatmulBody { generic, mma_bf16, mma_q4, mma_q8 };

struct MatmulChoice {
  MatmulBody body = MatmulBody::generic;
  int unit = 0;  // columns that a warp takes at once: within one group
  bool operator==(const MatmulChoice&) const = default;
};

MatmulChoice choose(const tensor::MatrixView& weight, MatmulPrecision precision) {
  const tensor::NumberFormat& f = weight.format;
  if (precision != MatmulPrecision::bf16_inputs) return {};
  if (f.kind == FormatKind::bf16 && weight.columns % 32 == 0) return {MatmulBody::mma_bf16, 32};
  if (f.kind != FormatKind::affine || f.scale_type != DType::bf16) return {};
  if (f.bits != 4 && f.bits != 8) return {};
  const int unit = f.group >= 64 ? 64 : 32;
  if (weight.columns % unit != 0) return {};
  return {f.bits == 4 ? MatmulBody::mma_q4 : MatmulBody::mma_q8, unit};
}

// --- generic: a warp per output; lane l sums columns l, l + 32, … of eight rows at a time.

__global__ void generic_kernel(MatmulArgs a) {
  wait_for_inputs();
  const tensor::MatrixView& w = a.segments[0].weight;
  const int64_t n = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  const int rows = *a.rows, first = static_cast<int>(blockIdx.y) * 8;
  if (n >= w.rows || first >= rows) return;
  float sums[8] = {};
  for (int64_t k = lane; k < a.columns; k += 32) {
    const float weight = weight_element(w, n, k);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      if (first + r >= rows) continue;
      float x = a.x[(first + r) * a.columns + k];
      if (a.precision == MatmulPrecision::bf16_inputs) x = __bfloat162float(__float2bfloat16_rn(x));
      sums[r] = __fmaf_rn(weight, x, sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    for (int offset = 16; offset > 0; offset /= 2) sums[r] += __shfl_xor_sync(~0u, sums[r], offset);
    if (lane == 0 && first + r < rows)
      a.segments[0].out[(first + r) * w.rows + n] =
          sums[r] + (a.segments[0].bias ? a.segments[0].bias[n] : 0.0f);
  }
}

// --- mma

// Where column k stands in a prepared row: the nibbles of a word come out as pairs (i, i + 4).
template <MatmulBody kBody>
__device__ int64_t prepared_column(int64_t k) {
  if constexpr (kBody == MatmulBody::mma_q4) return (k & ~int64_t{7}) | (k & 3) * 2 | (k >> 2 & 1);
  return k;
}

// One row of x, normed if the op says so, rounded to bf16; the whole block takes part.
template <MatmulBody kBody>
__device__ void prepare_row(const MatmulArgs& a, int64_t row, __nv_bfloat16* out) {
  __shared__ float parts[kWarps];
  const float* x = a.x + row * a.columns;
  float inverse = 1;
  if (a.norm_weight != nullptr) {
    float sum = 0;
    for (int64_t k = threadIdx.x; k < a.columns; k += kThreads) sum = __fmaf_rn(x[k], x[k], sum);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += parts[w];
    inverse = 1.0f / sqrtf(sum / static_cast<float>(a.columns) + a.norm_epsilon);
  }
  for (int64_t k = threadIdx.x; k < a.columns; k += kThreads) {
    const float value = a.norm_weight != nullptr ? x[k] * inverse * a.norm_weight[k] : x[k];
    out[prepared_column<kBody>(k)] = __float2bfloat16_rn(value);
  }
}

template <MatmulBody kBody>
__global__ void __launch_bounds__(kThreads) prepare_kernel(MatmulArgs a, __nv_bfloat16* out) {
  wait_for_inputs();
  if (static_cast<int>(blockIdx.x) < *a.rows)
    prepare_row<kBody>(a, blockIdx.x, out + blockIdx.x * (a.columns + kPad));
}

__device__ void mma_16x8x16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                            uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Two 4-bit codes, at bits 0 and 16 of `word`, as exact bf16: 128 + code, less 128.
__device__ uint32_t nibble_pair(uint32_t word) {
  const uint32_t biased = (word & 0x000F000F) | 0x43004300;
  const __nv_bfloat162 value =
      __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&biased), __float2bfloat162_rn(128.0f));
  return *reinterpret_cast<const uint32_t*>(&value);
}

// Bytes `low` and `low + 1` of a word as exact bf16.
__device__ uint32_t byte_pair(uint32_t word, int low) {
  const __nv_bfloat162 value = __floats2bfloat162_rn(static_cast<float>(word >> 8 * low & 255),
                                                     static_cast<float>(word >> 8 * (low + 1) & 255));
  return *reinterpret_cast<const uint32_t*>(&value);
}

// A thread's share of one row's unit: kUnit / 4 weights in a row.
template <MatmulBody kBody, int kUnit>
struct UnitBytes {
  static constexpr int kBits = kBody == MatmulBody::mma_q4 ? 4 : kBody == MatmulBody::mma_q8 ? 8 : 16;
  static constexpr int kWords = kUnit / 4 * kBits / 32;
  uint32_t words[kWords];
  __device__ void load(const std::byte* at) {
    if constexpr (kWords == 4) {
      const uint4 v = __ldcs(reinterpret_cast<const uint4*>(at));
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else if constexpr (kWords == 2) {
      const uint2 v = __ldcs(reinterpret_cast<const uint2*>(at));
      words[0] = v.x, words[1] = v.y;
    } else {
      words[0] = __ldcs(reinterpret_cast<const uint32_t*>(at));
    }
  }
  // The i-th pair of weights, in the order of the prepared inputs.
  __device__ uint32_t pair(int i) const {
    if constexpr (kBody == MatmulBody::mma_q4) return nibble_pair(words[i / 4] >> 4 * (i % 4));
    if constexpr (kBody == MatmulBody::mma_q8) return byte_pair(words[i / 2], i % 2 * 2);
    return words[i];
  }
};

__device__ float bf16_at(const std::byte* array, int64_t i) {
  return __uint_as_float(uint32_t{reinterpret_cast<const uint16_t*>(array)[i]} << 16);
}

// Sums of outputs [n0, n0 + 16) and kTiles × 8 rows over the units first, first + stride, … of K. Of an
// mma's four, sum c is output n0 + lane / 4 + c / 2 · 8 and row 2 · (lane % 4) + c % 2.
template <MatmulBody kBody, int kUnit, int kTiles>
__device__ void sum_units(const tensor::MatrixView& w, int64_t n0, const __nv_bfloat16* x, int rows,
                          int first, int stride, float (&total)[kTiles][4]) {
  using Bytes = UnitBytes<kBody, kUnit>;
  constexpr bool kAffine = kBody != MatmulBody::mma_bf16;
  constexpr int kAhead = 4, kShare = kUnit / 4;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t columns = w.columns, units = columns / kUnit, last = w.rows - 1;
  const int64_t low = n0 + g < last ? n0 + g : last, high = n0 + g + 8 < last ? n0 + g + 8 : last;
  const int64_t row_bytes = columns * Bytes::kBits / 8, groups = kAffine ? columns / w.format.group : 0;
  const std::byte* at_low = w.data + low * row_bytes + t * kShare * Bytes::kBits / 8;
  const std::byte* at_high = w.data + high * row_bytes + t * kShare * Bytes::kBits / 8;
  const int units_per_group = kAffine ? w.format.group / kUnit : 1;

  for (int64_t base = first; base < units; base += stride * kAhead) {
    Bytes bytes[kAhead][2];
    float scales[kAhead][4];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t unit = base + i * stride;
      if (unit >= units) continue;
      bytes[i][0].load(at_low + unit * (kUnit * Bytes::kBits / 8));
      bytes[i][1].load(at_high + unit * (kUnit * Bytes::kBits / 8));
      if constexpr (kAffine) {
        const int64_t group = unit / units_per_group;
        scales[i][0] = bf16_at(w.scales, low * groups + group),
        scales[i][1] = bf16_at(w.scales, high * groups + group);
        scales[i][2] = bf16_at(w.biases, low * groups + group),
        scales[i][3] = bf16_at(w.biases, high * groups + group);
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t unit = base + i * stride;
      if (unit >= units) continue;
      float sums[kTiles][4] = {}, inputs[kTiles][4] = {};
#pragma unroll
      for (int m = 0; m < kUnit / 16; ++m) {
        const uint32_t a0 = bytes[i][0].pair(2 * m), a1 = bytes[i][1].pair(2 * m);
        const uint32_t a2 = bytes[i][0].pair(2 * m + 1), a3 = bytes[i][1].pair(2 * m + 1);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const int row = tile * 8 + g;
          uint2 b = {0, 0};
          if (row < rows)
            b = *reinterpret_cast<const uint2*>(x + row * (columns + kPad) + unit * kUnit + t * kShare +
                                                4 * m);
          if constexpr (kAffine) {
            mma_16x8x16(sums[tile], a0, a1, a2, a3, b.x, b.y);
            mma_16x8x16(inputs[tile], 0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80, b.x, b.y);
          } else {
            mma_16x8x16(total[tile], a0, a1, a2, a3, b.x, b.y);
          }
        }
      }
      if constexpr (kAffine) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            total[tile][c] = __fmaf_rn(scales[i][c / 2], sums[tile][c], total[tile][c]);
            total[tile][c] = __fmaf_rn(scales[i][2 + c / 2], inputs[tile][c], total[tile][c]);
          }
        }
      }
    }
  }
}

// The product of outputs [n0, n0 + 16) with kTiles × 8 rows, K shared out among the block's warps. Thread
// i < 16 · 8 · kTiles gets that of output n0 + i % 16 and row i / 16.
template <MatmulBody kBody, int kUnit, int kTiles>
__device__ float product_tile(const tensor::MatrixView& w, int64_t n0, const __nv_bfloat16* x, int rows,
                              float* exchange) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float total[kTiles][4] = {};
  sum_units<kBody, kUnit, kTiles>(w, n0, x, rows, warp, kWarps, total);
  constexpr int kOutputs = kTileOutputs * 8 * kTiles;
  __syncthreads();  // the exchange may still be read for the tile before
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int n = g + c / 2 * 8, row = tile * 8 + 2 * t + c % 2;
      exchange[warp * kOutputs + row * kTileOutputs + n] = total[tile][c];
    }
  }
  __syncthreads();
  float sum = 0;
  if (static_cast<int>(threadIdx.x) < kOutputs) {
    for (int other = 0; other < kWarps; ++other) sum += exchange[other * kOutputs + threadIdx.x];
  }
  return sum;
}

// Asks for the weights of a tile of outputs, so that they are in the L2 cache when they are loaded.
template <int kBits>
__device__ void prefetch_tile(const tensor::MatrixView& w, int64_t n0) {
  constexpr int64_t kLine = 128;
  const int64_t row_bytes = w.columns * kBits / 8, end = min(n0 + kTileOutputs, w.rows) * row_bytes;
  for (int64_t at = n0 * row_bytes + threadIdx.x * kLine; at < end; at += kThreads * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(w.data + at));
}

// What becomes of one product: bias, gate and residual.
__device__ void finish(const MatmulArgs& a, const MatmulSegment& segment, int row, int64_t n, float value,
                       float up) {
  if (segment.bias != nullptr) value += segment.bias[n];
  const int64_t at = row * segment.weight.rows + n;
  if (a.epilogue == MatmulEpilogue::swiglu) {
    if (a.segments[1].bias != nullptr) up += a.segments[1].bias[n];
    value = value / (1.0f + expf(-value)) * up;
  }
  if (a.epilogue == MatmulEpilogue::add) value = a.residual[at] + value;
  segment.out[at] = value;
}

// The prepared inputs of up to 8 · kTiles rows from `first` on: `prepared`, or made in shared memory if null.
template <MatmulBody kBody>
__device__ const __nv_bfloat16* inputs_of(const MatmulArgs& a, const __nv_bfloat16* prepared, int first,
                                          int rows) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (prepared != nullptr) return prepared + first * (a.columns + kPad);
  auto* own = reinterpret_cast<__nv_bfloat16*>(shared);
  for (int row = 0; row < rows; ++row) prepare_row<kBody>(a, first + row, own + row * (a.columns + kPad));
  __syncthreads();
  return own;
}

// Few outputs: a block per tile. Blocks stride over the tiles of all segments.
template <MatmulBody kBody, int kUnit, int kTiles>
__global__ void __launch_bounds__(kThreads)
    mma_kernel(const __grid_constant__ MatmulArgs a, const __nv_bfloat16* prepared) {
  __shared__ float exchange[kWarps * kTileOutputs * 8 * kTiles];
  const bool gated = a.epilogue == MatmulEpilogue::swiglu;
  const int64_t segments = gated ? 1 : a.segment_count;
  int64_t tile = blockIdx.x;
  if (blockIdx.y == 0) {
    int64_t own = tile;
    for (int s = 0; s < segments; ++s) {
      const tensor::MatrixView& w = a.segments[s].weight;
      const int64_t tiles = (w.rows + kTileOutputs - 1) / kTileOutputs;
      if (own >= 0 && own < tiles) prefetch_tile<UnitBytes<kBody, kUnit>::kBits>(w, own * kTileOutputs);
      if (own >= 0 && own < tiles && gated)
        prefetch_tile<UnitBytes<kBody, kUnit>::kBits>(a.segments[1].weight, own * kTileOutputs);
      own -= tiles;
    }
  }
  wait_for_inputs();
  const int first = static_cast<int>(blockIdx.y) * 8 * kTiles;
  const int rows = min(*a.rows - first, 8 * kTiles);
  if (rows <= 0) return;
  const __nv_bfloat16* x = inputs_of<kBody>(a, prepared, first, rows);
  for (int s = 0; s < segments; ++s) {
    const MatmulSegment& segment = a.segments[s];
    const int64_t outputs = segment.weight.rows, tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
    for (; tile < tiles; tile += gridDim.x) {
      const int64_t n0 = tile * kTileOutputs, n = n0 + threadIdx.x % kTileOutputs;
      const int row = threadIdx.x / kTileOutputs;
      const float value = product_tile<kBody, kUnit, kTiles>(segment.weight, n0, x, rows, exchange);
      float up = 0;
      if (gated) up = product_tile<kBody, kUnit, kTiles>(a.segments[1].weight, n0, x, rows, exchange);
      if (row < rows && n < outputs) finish(a, segment, first + row, n, value, up);
    }
    tile -= tiles;
  }
}

// Many outputs (the head): a warp per tile, all of K its own, so that no tile waits for a block's barrier.
template <MatmulBody kBody, int kUnit, int kTiles>
__global__ void __launch_bounds__(kThreads)
    mma_many_kernel(const __grid_constant__ MatmulArgs a, const __nv_bfloat16* prepared) {
  const MatmulSegment& segment = a.segments[0];
  const int64_t outputs = segment.weight.rows, tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
  wait_for_inputs();
  const int first = static_cast<int>(blockIdx.y) * 8 * kTiles;
  const int rows = min(*a.rows - first, 8 * kTiles);
  if (rows <= 0) return;
  const __nv_bfloat16* x = inputs_of<kBody>(a, prepared, first, rows);
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int64_t i = blockIdx.x * int64_t{kWarps} + warp; i < tiles; i += int64_t{gridDim.x} * kWarps) {
    float total[kTiles][4] = {};
    sum_units<kBody, kUnit, kTiles>(segment.weight, i * kTileOutputs, x, rows, 0, 1, total);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int64_t n = i * kTileOutputs + g + c / 2 * 8;
        const int row = tile * 8 + 2 * t + c % 2;
        if (row < rows && n < outputs) finish(a, segment, first + row, n, total[tile][c], 0);
      }
    }
  }
}

// Depends on the matrix alone, for the two kernels sum in different orders.
bool has_many_outputs(const MatmulArgs& a) {
  constexpr int64_t kMany = 4096 * kTileOutputs;
  return a.segment_count == 1 && a.epilogue != MatmulEpilogue::swiglu && a.segments[0].weight.rows >= kMany;
}

template <MatmulBody kBody, int kUnit, int kTiles>
void launch_mma(const MatmulArgs& a, const CudaLaunch& l) {
  const int64_t rows = l.capacity < 8 * kTiles ? l.capacity : 8 * kTiles;
  const int64_t shared = rows * (a.columns + kPad) * 2;
  const bool own = l.capacity <= 8 * kTiles && shared <= kSharedInput;
  auto* prepared = own ? nullptr : reinterpret_cast<__nv_bfloat16*>(l.scratch);
  if (!own)
    launch(prepare_kernel<kBody>, static_cast<unsigned>(l.capacity), kThreads, 0, l.stream, a, prepared);
  int64_t tiles = 0;
  for (int s = 0; s < (a.epilogue == MatmulEpilogue::swiglu ? 1 : a.segment_count); ++s)
    tiles += (a.segments[s].weight.rows + kTileOutputs - 1) / kTileOutputs;
  const int64_t resident = int64_t{l.multiprocessors} * 4;
  const dim3 grid(static_cast<unsigned>(tiles < resident ? tiles : resident),
                  static_cast<unsigned>((l.capacity + 8 * kTiles - 1) / (8 * kTiles)));
  const auto kernel =
      has_many_outputs(a) ? mma_many_kernel<kBody, kUnit, kTiles> : mma_kernel<kBody, kUnit, kTiles>;
  launch(kernel, grid, kThreads, own ? static_cast<size_t>(shared) : 0, l.stream, a, prepared);
}

template <MatmulBody kBody, int kUnit>
void launch_mma(const MatmulArgs& a, const CudaLaunch& l) {
  if (l.capacity <= 8) return launch_mma<kBody, kUnit, 1>(a, l);
  launch_mma<kBody, kUnit, 2>(a, l);
}

}  // namespace

bool supports_format(const tensor::NumberFormat& format) {
  switch (format.kind) {
    case FormatKind::f32:
    case FormatKind::f16:
    case FormatKind::bf16:
    case FormatKind::affine:
    case FormatKind::q4_0:
    case FormatKind::q4_1:
    case FormatKind::q8_0:
    case FormatKind::q4_k:
    case FormatKind::q5_k:
    case FormatKind::q6_k:
      return true;
    default:
      return false;
  }
}

bool fuses_matmul(const MatmulArgs& a) {
  const MatmulChoice choice = choose(a.segments[0].weight, a.precision);
  bool same = choice.body != MatmulBody::generic;
  for (int s = 1; s < a.segment_count; ++s)
    same = same && choose(a.segments[s].weight, a.precision) == choice;
  return same;
}

size_t matmul_scratch(const MatmulArgs& a, int64_t capacity) {
  return static_cast<size_t>(capacity * (a.columns + kPad) * 2);
}

const char* matmul_kernel_name(const MatmulArgs& a) {
  switch (choose(a.segments[0].weight, a.precision).body) {
    case MatmulBody::mma_bf16:
      return "mma_bf16";
    case MatmulBody::mma_q4:
      return "mma_q4";
    case MatmulBody::mma_q8:
      return "mma_q8";
    case MatmulBody::generic:
      break;
  }
  return "generic";
}

void matmul(const MatmulArgs& a, const CudaLaunch& l) {
  const MatmulChoice choice = choose(a.segments[0].weight, a.precision);
  if (choice.body == MatmulBody::mma_bf16) return launch_mma<MatmulBody::mma_bf16, 32>(a, l);
  if (choice.body == MatmulBody::mma_q4 && choice.unit == 64) return launch_mma<MatmulBody::mma_q4, 64>(a, l);
  if (choice.body == MatmulBody::mma_q4) return launch_mma<MatmulBody::mma_q4, 32>(a, l);
  if (choice.body == MatmulBody::mma_q8 && choice.unit == 64) return launch_mma<MatmulBody::mma_q8, 64>(a, l);
  if (choice.body == MatmulBody::mma_q8) return launch_mma<MatmulBody::mma_q8, 32>(a, l);
  const dim3 grid(static_cast<unsigned>((a.segments[0].weight.rows + kWarps - 1) / kWarps),
                  static_cast<unsigned>((l.capacity + 7) / 8));
  launch(generic_kernel, grid, kThreads, 0, l.stream, a);
}

}  // namespace rafter::kernels::cuda

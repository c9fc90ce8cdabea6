// The inputs of a product as the tensor cores take them: rows of bf16, normed first if the op says so, and
// per 32 columns the sum of the rounded values, for the biases of affine codes.
//
// Made by prepare_kernel into the scratch of the launch, or by each block of a product of one row for itself:
// by the same code with the same number of threads, so with the same bits. Products of few rows also take
// rounded rows without sums.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/tile_product.cuh"
#include "kernels/op/matmul.h"

namespace rafter::kernels::cuda {

constexpr int kSumColumns = 32;

struct PreparedRows {
  const __nv_bfloat16* x = nullptr;  // [rows, K]
  const float* sums = nullptr;       // [K / 32, sums_stride], or null: not made
  int64_t sums_stride = 0;           // rows, a multiple of the row tile
};

inline int64_t prepared_sums_stride(int64_t capacity) {
  constexpr int64_t kFew = 16, kMany = 128;
  return capacity <= kFew ? kFew : (capacity + kMany - 1) / kMany * kMany;
}
inline int64_t prepared_x_bytes(int64_t columns, int64_t capacity) {
  return (capacity * columns * 2 + 255) / 256 * 256;
}
inline int64_t prepared_bytes(int64_t columns, int64_t capacity) {
  const int64_t sums = columns / kSumColumns * prepared_sums_stride(capacity) * 4;
  return (prepared_x_bytes(columns, capacity) + sums + 255) / 256 * 256;
}

// Units are cut into a slice for each warp (slice_begin); a warp prepares the columns of its own slice, 8
// neighbours a lane. Only the norm's sum of squares needs the whole block.
class RowPreparer {
 public:
  static constexpr int kColumns = 8, kChunk = 32 * kColumns;
  static constexpr int kHeld = 2;  // chunks of a warp that are kept between the norm's passes

  __device__ explicit RowPreparer(const MatmulArgs& a) : a_(a) {
    const int warp = threadIdx.x / 32, units = static_cast<int>(a.columns / kUnitColumns);
    begin_ = slice_begin(warp, units, kProductWarps) * kUnitColumns;
    end_ = slice_begin(warp + 1, units, kProductWarps) * kUnitColumns;
  }

  // One row, by the whole block; `parts` has kProductWarps elements, others than those of the row before.
  // sums[i · stride] is that of columns 32 · i …
  __device__ void prepare(int64_t row, float* parts, __nv_bfloat16* out, float* sums, int64_t sums_stride) {
    const float* x = a_.x + row * a_.columns;
    Chunks held, norm;
    const bool normed = a_.norm_weight != nullptr;
    if (!normed) {  // twice as many are asked for at once
#pragma unroll 1
      for (int base = begin_; base < end_; base += 2 * kHeld * kChunk) {
        load_chunks(x, base, held);
        load_chunks(x, base + kHeld * kChunk, norm);
        store_chunks(held, held, false, 1, base, out, sums, sums_stride);
        store_chunks(norm, norm, false, 1, base + kHeld * kChunk, out, sums, sums_stride);
      }
      return;
    }
    load_chunks(x, begin_, held);
    load_chunks(a_.norm_weight, begin_, norm);
    float sum = 0;
    add_squares(held, &sum);
#pragma unroll 1
    for (int base = begin_ + kHeld * kChunk; base < end_; base += kHeld * kChunk) {
      Chunks more;
      load_chunks(x, base, more);
      add_squares(more, &sum);
    }
    const float inverse = rsqrtf(block_sum(sum, parts) / static_cast<float>(a_.columns) + a_.norm_epsilon);
#pragma unroll 1
    for (int base = begin_; base < end_; base += kHeld * kChunk) {
      if (base > begin_) {
        load_chunks(x, base, held);
        load_chunks(a_.norm_weight, base, norm);
      }
      store_chunks(held, norm, true, inverse, base, out, sums, sums_stride);
    }
  }

 private:
  using Chunks = float[kHeld][kColumns];

  __device__ static int column(int base, int chunk) {
    return base + chunk * kChunk + static_cast<int>(threadIdx.x) % 32 * kColumns;
  }
  // Zeros beyond the slice.
  __device__ void load_chunks(const float* from, int base, Chunks& values) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = column(base, i);
      const bool inside = k < end_;
      const float4 zero = {0, 0, 0, 0};
      const float4 low = inside ? *reinterpret_cast<const float4*>(from + k) : zero;
      const float4 high = inside ? *reinterpret_cast<const float4*>(from + k + 4) : zero;
      values[i][0] = low.x, values[i][1] = low.y, values[i][2] = low.z, values[i][3] = low.w;
      values[i][4] = high.x, values[i][5] = high.y, values[i][6] = high.z, values[i][7] = high.w;
    }
  }
  __device__ static void add_squares(const Chunks& values, float* sum) {
#pragma unroll
    for (int i = 0; i < kHeld * kColumns; ++i)
      *sum = __fmaf_rn(values[i / kColumns][i % kColumns], values[i / kColumns][i % kColumns], *sum);
  }
  __device__ static float block_sum(float sum, float* parts) {
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) sum += parts[w];
    return sum;
  }
  __device__ void store_chunks(const Chunks& values, const Chunks& norm, bool normed, float inverse, int base,
                               __nv_bfloat16* out, float* sums, int64_t sums_stride) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (base + i * kChunk < end_)
        store(values[i], norm[i], normed, inverse, column(base, i), out, sums, sums_stride);
    }
  }
  __device__ void store(const float (&values)[kColumns], const float (&norm)[kColumns], bool normed,
                        float inverse, int k, __nv_bfloat16* out, float* sums, int64_t sums_stride) const {
    __nv_bfloat162 pairs[kColumns / 2];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      const float first = normed ? values[i] * inverse * norm[i] : values[i];
      const float second = normed ? values[i + 1] * inverse * norm[i + 1] : values[i + 1];
      pairs[i / 2] = __floats2bfloat162_rn(first, second);
      sum += __low2float(pairs[i / 2]);
      sum += __high2float(pairs[i / 2]);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (k >= end_) return;
    *reinterpret_cast<uint4*>(out + k) = *reinterpret_cast<const uint4*>(pairs);
    if (k % kSumColumns == 0) sums[k / kSumColumns * sums_stride] = sum;
  }

  const MatmulArgs& a_;
  int begin_ = 0, end_ = 0;  // columns of this warp
};

}  // namespace rafter::kernels::cuda

// The inputs of a product as the tensor cores take them: rows of bf16, normed first if the op says so, and per
// 32 columns the sum of the rounded values, for the biases of affine codes.
//
// Made by prepare_kernel into the scratch of the launch, or by each block of a product of few rows for itself:
// by the same code with the same number of threads, so with the same bits.
#pragma once

#include <cuda_bf16.h>

#include "kernels/op/matmul.h"

namespace rafter::kernels::cuda {

constexpr int kProductThreads = 256, kProductWarps = kProductThreads / 32;
constexpr int kSumColumns = 32;

struct PreparedRows {
  const __nv_bfloat16* x = nullptr;  // [rows, K]
  const float* sums = nullptr;       // [K / 32, sums_stride]
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
  return prepared_x_bytes(columns, capacity) + columns / kSumColumns * prepared_sums_stride(capacity) * 4;
}

// A thread takes 8 neighbouring columns of every 8 · kProductThreads.
class RowPreparer {
 public:
  static constexpr int kColumns = 8, kChunk = kColumns * kProductThreads;
  static constexpr int kHeld = 2;  // chunks kept in registers between the norm's two passes

  // Weights only: may run before wait_for_inputs().
  __device__ explicit RowPreparer(const MatmulArgs& a) : a_(a) {
    if (a.norm_weight == nullptr) return;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) load(a.norm_weight, column(i), norm_[i]);
  }

  // One row, by the whole block; `parts` has kProductWarps elements. sums[i · stride] is that of columns 32·i …
  __device__ void prepare(int64_t row, float* parts, __nv_bfloat16* out, float* sums, int64_t sums_stride) {
    const float* x = a_.x + row * a_.columns;
    float held[kHeld][kColumns];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) load(x, column(i), held[i]);
    float inverse = 1;
    const bool normed = a_.norm_weight != nullptr;
    if (normed) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) add_squares(held[i], &sum);
      for (int i = kHeld; i * kChunk < a_.columns; ++i) {
        float values[kColumns];
        load(x, column(i), values);
        add_squares(values, &sum);
      }
      inverse = 1.0f / sqrtf(block_sum(sum, parts) / static_cast<float>(a_.columns) + a_.norm_epsilon);
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (i * kChunk < a_.columns) store(held[i], norm_[i], normed, inverse, column(i), out, sums, sums_stride);
    }
    for (int i = kHeld; i * kChunk < a_.columns; ++i) {
      float values[kColumns], norm[kColumns];
      load(x, column(i), values);
      if (normed) load(a_.norm_weight, column(i), norm);
      store(values, norm, normed, inverse, column(i), out, sums, sums_stride);
    }
  }

 private:
  __device__ static int64_t column(int chunk) {
    return int64_t{chunk} * kChunk + static_cast<int>(threadIdx.x) * kColumns;
  }
  // Zeros beyond the row.
  __device__ void load(const float* from, int64_t k, float (&values)[kColumns]) const {
    const bool inside = k < a_.columns;
    const float4 zero = {0, 0, 0, 0};
    const float4 low = inside ? *reinterpret_cast<const float4*>(from + k) : zero;
    const float4 high = inside ? *reinterpret_cast<const float4*>(from + k + 4) : zero;
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
  }
  __device__ static void add_squares(const float (&values)[kColumns], float* sum) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) *sum = __fmaf_rn(values[i], values[i], *sum);
  }
  __device__ static float block_sum(float sum, float* parts) {
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) sum += parts[w];
    return sum;
  }
  __device__ void store(const float (&values)[kColumns], const float (&norm)[kColumns], bool normed,
                        float inverse, int64_t k, __nv_bfloat16* out, float* sums, int64_t sums_stride) const {
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
    if (k >= a_.columns) return;
    *reinterpret_cast<uint4*>(out + k) = *reinterpret_cast<const uint4*>(pairs);
    if (k % kSumColumns == 0) sums[k / kSumColumns * sums_stride] = sum;
  }

  const MatmulArgs& a_;
  float norm_[kHeld][kColumns] = {};
};

}  // namespace rafter::kernels::cuda

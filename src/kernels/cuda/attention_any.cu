#include "kernels/cuda/attention_bodies.cuh"
#include "kernels/cuda/cache_offset.cuh"
#include "kernels/cuda/launch.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// One block per (row, head) walks the splits in ascending order: the contract's merge without a second
// kernel. Inside a split one thread has one position's score; sums run in a fixed tree or in ascending
// positions.
constexpr int kMaxHeadDim = 256;

__device__ float cached_value(const KvLayer& cache, const std::byte* at, int64_t d) {
  return cache.type == tensor::DType::f32
             ? reinterpret_cast<const float*>(at)[d]
             : __uint_as_float(uint32_t{reinterpret_cast<const uint16_t*>(at)[d]} << 16);
}

__device__ float block_reduce(float value, bool maximum, float* parts) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(~0u, value, offset);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int w = 1; w < kThreads / 32; ++w) value = maximum ? fmaxf(value, parts[w]) : value + parts[w];
  return value;
}

__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionArgs a) {
  start_next();
  wait_for_inputs();
  static_assert(kSplitPositions == kThreads);
  __shared__ float query[kMaxHeadDim], weights[kThreads], parts[kThreads / 32], sums[kThreads];
  __shared__ int64_t offsets[kThreads];
  const StepInput& input = *a.input;
  const int64_t b = blockIdx.x, head = blockIdx.y;
  if (b >= input.rows) return;
  const int head_dim = a.cache.head_dim, thread = threadIdx.x;
  const int64_t kv_head = head / (a.heads / a.cache.kv_heads), row = (b * a.heads + head) * head_dim;
  int64_t from = input.visible_from[b];
  const int64_t to = input.visible_to[b];
  if (a.window > 0 && input.positions[b] - a.window + 1 > from) from = input.positions[b] - a.window + 1;
  for (int d = thread; d < head_dim; d += kThreads) query[d] = a.q[row + d];
  __syncthreads();

  const int lanes = kThreads / head_dim;  // threads that share one output, each with its own positions
  const int own = thread % head_dim, part = thread / head_dim;
  float largest = -INFINITY, total = 0, sum = 0;
  for (int64_t split = from / kThreads; split * kThreads < to; ++split) {
    const int64_t position = split * kThreads + thread;
    const bool visible = position >= from && position < to;
    float score = -INFINITY;
    if (visible) {
      offsets[thread] = cache_offset(input, a.cache, b, kv_head, position);
      const std::byte* key = a.cache.keys + offsets[thread];
      float dot = 0;
      if (a.cache.type == tensor::DType::bf16 && head_dim % 8 == 0) {
#pragma unroll 8
        for (int d = 0; d < head_dim; d += 8) {
          const uint4 eight = *reinterpret_cast<const uint4*>(key + 2 * d);
          const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            dot = __fmaf_rn(query[d + 2 * i], __uint_as_float(words[i] << 16), dot);
            dot = __fmaf_rn(query[d + 2 * i + 1], __uint_as_float(words[i] & 0xFFFF0000), dot);
          }
        }
      } else {
        for (int d = 0; d < head_dim; ++d) dot = __fmaf_rn(query[d], cached_value(a.cache, key, d), dot);
      }
      score = a.scale * dot;
    }
    const float split_largest = block_reduce(score, true, parts);
    weights[thread] = visible ? expf(score - split_largest) : 0;
    const float split_total = block_reduce(weights[thread], false, parts);
    float split_sum = 0;
    const int64_t first = split * kThreads;
    const int begin = from > first ? static_cast<int>(from - first) : 0;
    const int end = to - first < kThreads ? static_cast<int>(to - first) : kThreads;
    if (part < lanes) {
#pragma unroll 8
      for (int p = begin / lanes * lanes + part; p < end; p += lanes) {
        if (p >= begin)
          split_sum =
              __fmaf_rn(weights[p], cached_value(a.cache, a.cache.values + offsets[p], own), split_sum);
      }
    }
    sums[thread] = split_sum;
    __syncthreads();
    if (part == 0) {
      for (int other = 1; other < lanes; ++other) split_sum += sums[own + other * head_dim];
    }
    const float merged = fmaxf(largest, split_largest);
    const float old_factor = expf(largest - merged), new_factor = expf(split_largest - merged);
    total = __fmaf_rn(total, old_factor, split_total * new_factor);
    sum = __fmaf_rn(sum, old_factor, split_sum * new_factor);
    largest = merged;
    __syncthreads();
  }
  if (part == 0) a.out[row + own] = from < to ? sum / total : 0;
}

}  // namespace

bool supports_attention_any(const AttentionArgs& a) {
  return a.cache.head_dim <= kMaxHeadDim && !a.cache.has_codes();
}

void attention_any(const AttentionArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>(l.capacity), static_cast<unsigned>(a.heads));
  launch(attention_kernel, grid, kThreads, 0, l.stream, a);
}

}  // namespace rafter::kernels::cuda

// The end of a step whose rows go on by themselves: each row's largest logit names its next token, which the
// input block of the next step is given here, with the position moved on. The host reads the tokens behind.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 32;

struct Best {
  float value;
  int32_t token;
};

// The larger; of equals the lower token. No number never wins.
__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

__device__ Best best_of_block(Best best, Best* parts) {
  for (int offset = 16; offset > 0; offset /= 2)
    best = better(best, {__shfl_xor_sync(~0u, best.value, offset), __shfl_xor_sync(~0u, best.token, offset)});
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = best;
  __syncthreads();
  best = parts[0];
  for (int w = 1; w < kThreads / 32; ++w) best = better(best, parts[w]);
  return best;
}

__global__ void __launch_bounds__(kThreads) greedy_kernel(GreedyArgs a, Best* scratch, int32_t* counters) {
  __shared__ Best parts[kThreads / 32];
  __shared__ bool is_last;
  start_next();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.y);
  if (row >= a.input->rows) return;
  Best best = {-INFINITY, INT32_MAX};
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.vocabulary; i += kThreads * kBlocks)
    best = better(best, {a.logits[row * a.vocabulary + i], static_cast<int32_t>(i)});
  best = best_of_block(best, parts);
  if (threadIdx.x == 0) {
    scratch[row * kBlocks + blockIdx.x] = best;
    __threadfence();
    is_last = atomicAdd(counters + row, 1) == kBlocks - 1;
    if (is_last) counters[row] = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  best = {-INFINITY, INT32_MAX};
  if (threadIdx.x < kBlocks) {
    const volatile Best& part = scratch[row * kBlocks + threadIdx.x];
    best = {part.value, part.token};
  }
  best = best_of_block(best, parts);
  if (threadIdx.x > 0) return;
  const int32_t token = best.token == INT32_MAX ? 0 : best.token;
  a.tokens[row] = token;
  const_cast<int32_t*>(a.input->tokens)[row] = token;
  ++const_cast<int32_t*>(a.input->positions)[row];
  ++const_cast<int32_t*>(a.input->visible_to)[row];
}

}  // namespace

size_t greedy_scratch(int64_t capacity) { return static_cast<size_t>(capacity) * kBlocks * sizeof(Best); }

void greedy(const GreedyArgs& a, const CudaLaunch& l) {
  launch(greedy_kernel, dim3(kBlocks, static_cast<unsigned>(l.capacity)), kThreads, 0, l.stream, a,
         reinterpret_cast<Best*>(l.scratch), l.counters);
}

}  // namespace rafter::kernels::cuda

// Row-wise kernels: one block per row, or one thread per element of a fixed grid that strides over the live
// rows.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cache_offset.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rope_element.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t elements) {
  return static_cast<unsigned>(elements < kThreads ? 1 : (elements + kThreads - 1) / kThreads);
}

__device__ int64_t thread_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

// One warp per group; lane l sums elements l, l + 32, …
__global__ void rms_norm_kernel(RmsNormArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t group = thread_index() / 32;
  if (group >= int64_t{*a.rows} * a.groups) return;
  const int lane = threadIdx.x & 31;
  const float* x = a.x + group * a.width;
  float sum = 0;
  for (int64_t i = lane; i < a.width; i += 32) sum = __fmaf_rn(x[i], x[i], sum);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(a.width) + a.epsilon);
  for (int64_t i = lane; i < a.width; i += 32) a.out[group * a.width + i] = x[i] * inverse * a.weight[i];
}

__global__ void rope_angles_kernel(RopeAnglesArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t pairs = a.rotated_dims / 2, i = thread_index();
  if (i >= a.input->rows * pairs) return;
  const int64_t b = i / pairs, pair = i % pairs;
  const float angle = a.position_scale * static_cast<float>(a.input->positions[b]) * a.frequencies[pair];
  a.out[b * a.rotated_dims + pair] = cosf(angle);
  a.out[b * a.rotated_dims + pairs + pair] = sinf(angle);
}

// One block per (row, head): all of a head is read before any of it is written, for out may be x.
__global__ void rope_kernel(RopeArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t b = blockIdx.x, head = b * a.heads + blockIdx.y;
  if (b >= *a.rows) return;
  const int d = threadIdx.x;
  const float value =
      d < a.head_dim ? rotated(a, a.x + head * a.head_dim, a.angles + b * a.rotated_dims, d) : 0;
  __syncthreads();
  if (d < a.head_dim) a.out[head * a.head_dim + d] = value;
}

__global__ void kv_append_kernel(KvAppendArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t b = blockIdx.x, head = blockIdx.y, d = threadIdx.x;
  if (b >= a.input->rows || d >= a.cache.head_dim) return;
  const int64_t offset = cache_offset(*a.input, a.cache, b, head, a.input->positions[b]);
  const int64_t at = (b * a.cache.kv_heads + head) * a.cache.head_dim + d;
  store_cached(a.cache, a.cache.keys + offset, static_cast<int>(d), a.k[at]);
  store_cached(a.cache, a.cache.values + offset, static_cast<int>(d), a.v[at]);
}

// A warp per head: 0 … H − 1 are queries, the KV after them keys with their values. All of a head is read
// before any of it is written, for out may be x.
constexpr int kMostPerLane = 8;  // elements of a head
__global__ void rope_append_kernel(const __grid_constant__ RopeAppendArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t b = blockIdx.x;
  if (b >= a.input->rows) return;
  const int lane = threadIdx.x % 32, head_dim = a.q.head_dim;
  const int index = static_cast<int>(blockIdx.y) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (index >= a.q.heads + a.k.heads) return;
  const float* angles = a.q.angles + b * a.q.rotated_dims;
  const bool is_query = index < a.q.heads;
  const int64_t kv_head = index - a.q.heads;
  const int64_t head = (is_query ? b * a.q.heads + index : b * a.k.heads + kv_head) * head_dim;
  float values[kMostPerLane];
#pragma unroll
  for (int i = 0; i < kMostPerLane; ++i) {
    const int d = lane + 32 * i;
    values[i] = 0;
    if (d < head_dim) values[i] = rotated(is_query ? a.q : a.k, (is_query ? a.q.x : a.k.x) + head, angles, d);
  }
  __syncwarp();
  const int64_t offset = is_query ? 0 : cache_offset(*a.input, a.cache, b, kv_head, a.input->positions[b]);
#pragma unroll
  for (int i = 0; i < kMostPerLane; ++i) {
    const int d = lane + 32 * i;
    if (d >= head_dim) continue;
    if (is_query) {
      a.q.out[head + d] = values[i];
      continue;
    }
    store_cached(a.cache, a.cache.keys + offset, d, values[i]);
    store_cached(a.cache, a.cache.values + offset, d, a.v[head + d]);
  }
}

__global__ void swiglu_kernel(SwigluArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t i = thread_index();
  if (i < *a.rows * a.width) a.out[i] = a.gate[i] / (1.0f + expf(-a.gate[i])) * a.up[i];
}

__global__ void add_kernel(AddArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t i = thread_index();
  if (i < *a.rows * a.width) a.out[i] = a.a[i] + a.b[i];
}

__global__ void select_rows_kernel(SelectRowsArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t i = blockIdx.x;
  if (i >= a.input->wanted_rows) return;
  const int64_t d = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (d < a.width) a.out[i * a.width + d] = a.x[a.input->wanted[i] * a.width + d];
}

unsigned threads_of(int head_dim) { return static_cast<unsigned>((head_dim + 31) / 32 * 32); }

}  // namespace

void rms_norm(const RmsNormArgs& a, const CudaLaunch& l) {
  launch(rms_norm_kernel, blocks_for(l.capacity * a.groups * 32), kThreads, 0, l.stream, a);
}
void rope_angles(const RopeAnglesArgs& a, const CudaLaunch& l) {
  launch(rope_angles_kernel, blocks_for(l.capacity * a.rotated_dims / 2), kThreads, 0, l.stream, a);
}
void rope(const RopeArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>(l.capacity), static_cast<unsigned>(a.heads));
  launch(rope_kernel, grid, threads_of(a.head_dim), 0, l.stream, a);
}
void kv_append(const KvAppendArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>(l.capacity), static_cast<unsigned>(a.cache.kv_heads));
  launch(kv_append_kernel, grid, threads_of(a.cache.head_dim), 0, l.stream, a);
}
void rope_append(const RopeAppendArgs& a, const CudaLaunch& l) {
  const int heads = a.q.heads + a.k.heads, per_block = kThreads / 32;
  const dim3 grid(static_cast<unsigned>(l.capacity),
                  static_cast<unsigned>((heads + per_block - 1) / per_block));
  launch(rope_append_kernel, grid, kThreads, 0, l.stream, a);
}
void swiglu(const SwigluArgs& a, const CudaLaunch& l) {
  launch(swiglu_kernel, blocks_for(l.capacity * a.width), kThreads, 0, l.stream, a);
}
void add(const AddArgs& a, const CudaLaunch& l) {
  launch(add_kernel, blocks_for(l.capacity * a.width), kThreads, 0, l.stream, a);
}
void select_rows(const SelectRowsArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>(l.capacity),
                  static_cast<unsigned>((a.width + kThreads - 1) / kThreads));
  launch(select_rows_kernel, grid, kThreads, 0, l.stream, a);
}
}  // namespace rafter::kernels::cuda

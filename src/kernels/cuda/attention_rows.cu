// Attention of few rows: a block takes one row and one kv head, the query heads that share it as the 16 rows of
// the tensor cores' tile, and every warp one chunk of a split. A fixed grid of `slots` blocks walks a row's splits;
// with more than one split each leaves its part in scratch, and the block that is done last merges them.
//
// With one row in the step the same kernel rotates the queries and the key and appends to the cache: no other row
// waits for them.
#include <algorithm>

#include "kernels/cuda/attention_bodies.cuh"
#include "kernels/cuda/attention_chunk.cuh"
#include "kernels/cuda/cache_offset.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rope_element.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 32 * kChunksPerSplit;
constexpr int kTileHeads = 16;
constexpr int64_t kMostScratch = int64_t{256} << 20;
constexpr int64_t kMostRows = 64;

// Of one split in scratch, per query head: maximum, sum, values.
__host__ __device__ constexpr int part_floats(int head_dim) { return head_dim + 2; }

int64_t splits_of(int64_t max_positions) { return (max_positions + kSplitPositions - 1) / kSplitPositions; }

int head_tiles(const AttentionArgs& a) {
  return (a.heads / a.cache.kv_heads + kTileHeads - 1) / kTileHeads;
}

template <int kHeadDim, bool kFused>
__global__ void __launch_bounds__(kThreads)
    attention_rows_kernel(const __grid_constant__ AttentionArgs a, const __grid_constant__ RopeAppendArgs rope,
                          float* scratch, int32_t* counters, int64_t most_splits) {
  using Tile = ChunkTile<kHeadDim>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ bool is_last;
  start_next();
  const StepInput& input = *a.input;  // nothing in a step writes it
  const int64_t row = blockIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  if (row >= input.rows) {
    wait_for_inputs();
    return;
  }
  const int shared_by = a.heads / a.cache.kv_heads, tiles = (shared_by + kTileHeads - 1) / kTileHeads;
  const int64_t kv_head = blockIdx.y / tiles;
  const int first_head = static_cast<int>(kv_head) * shared_by + static_cast<int>(blockIdx.y) % tiles * kTileHeads;
  const int heads = min(kTileHeads, static_cast<int>(kv_head + 1) * shared_by - first_head);
  const int from[2] = {first_visible(a, input, row), first_visible(a, input, row)};
  const int to[2] = {input.visible_to[row], input.visible_to[row]};
  const int32_t* const table = table_of(a, input, row);
  const int first_split = from[0] / static_cast<int>(kSplitPositions);
  const int end_split = (to[0] + static_cast<int>(kSplitPositions) - 1) / static_cast<int>(kSplitPositions);
  const int slots = static_cast<int>(gridDim.z);
  uint8_t* const tile = shared + warp * Tile::kBytes;

  if (const int chunk = (first_split + static_cast<int>(blockIdx.z)) * kChunksPerSplit + warp;
      chunk * kChunk < to[0]) {  // what other rows of this step append may still be on its way: a hint only
    const int64_t offset = chunk_offset(a, table, chunk, kv_head);
    for (int at = lane * 128; at < Tile::kSideBytes; at += 32 * 128) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(a.cache.keys + offset + at));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(a.cache.values + offset + at));
    }
  }
  wait_for_inputs();

  const float* queries = a.q + (row * a.heads + first_head) * kHeadDim;
  if constexpr (kFused) {
    auto* const rotated_queries = reinterpret_cast<float*>(shared + kChunksPerSplit * Tile::kBytes);
    const float* const angles = rope.q.angles + row * rope.q.rotated_dims;
    for (int i = threadIdx.x; i < heads * kHeadDim; i += kThreads) {
      const float* const head = rope.q.x + (row * a.heads + first_head + i / kHeadDim) * kHeadDim;
      rotated_queries[i] = rotated(rope.q, head, angles, i % kHeadDim);
    }
    queries = rotated_queries;
    const int position = input.positions[row];
    if ((position / static_cast<int>(kSplitPositions) - first_split) % slots == static_cast<int>(blockIdx.z)) {
      const int64_t at = (row * a.cache.kv_heads + kv_head) * kHeadDim;
      const int64_t offset = cache_offset(input, a.cache, row, kv_head, position);
      for (int d = threadIdx.x; d < kHeadDim; d += kThreads) {
        store_cached(a.cache, a.cache.keys + offset, d, rotated(rope.k, rope.k.x + at, angles, d));
        store_cached(a.cache, a.cache.values + offset, d, rope.v[at + d]);
      }
      __threadfence();
    }
    __syncthreads();
  }
  uint32_t q[kHeadDim / 16][4];
  load_queries<kHeadDim>(
      [&](int r, int d) { return g + 8 * r < heads ? queries + (g + 8 * r) * kHeadDim + d : nullptr; }, lane, q);
  const auto part_of = [&](int split, int head) {
    return scratch + ((row * a.heads + first_head + head) * most_splits + split) * part_floats(kHeadDim);
  };
  const bool only = end_split - first_split <= 1;
  for (int split = first_split + static_cast<int>(blockIdx.z); split < end_split; split += slots) {
    const int chunk = split * kChunksPerSplit + warp;
    const bool visible = chunk * kChunk < to[0] && (chunk + 1) * kChunk > from[0];
    __syncthreads();  // the tiles may still be read as parts
    if (visible) {
      const int64_t offset = chunk_offset(a, table, chunk, kv_head);
      Tile::copy(tile, a.cache.keys + offset, a.cache.values + offset, from[0] - chunk * kChunk, to[0] - chunk * kChunk,
                 lane, 32);
    }
    commit_copies();
    wait_copies<0>();
    __syncwarp();
    AttentionPart<kHeadDim> part;
    if (visible) part = attend<kHeadDim>(q, tile, chunk * kChunk, from, to, a.scale * kLog2e, lane);
    // Over its own tile, each warp leaves its part for the first.
    auto* const left = reinterpret_cast<AttentionPart<kHeadDim>*>(shared + warp * Tile::kBytes) + lane;
    static_assert(sizeof(AttentionPart<kHeadDim>) * 32 <= Tile::kBytes);
    __syncwarp();
    if (warp > 0) *left = part;
    __syncthreads();
    if (warp > 0) continue;
    AttentionPart<kHeadDim> all;
    merge(all, part);
    for (int other = 1; other < kChunksPerSplit; ++other)
      merge(all, *(reinterpret_cast<AttentionPart<kHeadDim>*>(shared + other * Tile::kBytes) + lane));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int head = g + 8 * r;
      if (head >= heads) continue;
      float* const out = only ? a.out + (row * a.heads + first_head + head) * kHeadDim : part_of(split, head) + 2;
      const float divisor = only ? all.sum[r] : 1;
      if (!only && t == 0) out[-2] = all.maximum[r], out[-1] = all.sum[r];
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i)
        *reinterpret_cast<float2*>(out + i * 8 + 2 * t) = {all.values[i][2 * r] / divisor,
                                                           all.values[i][2 * r + 1] / divisor};
    }
  }
  if (only) {
    if (end_split <= first_split && blockIdx.z == 0)
      for (int i = threadIdx.x; i < heads * kHeadDim; i += kThreads)
        a.out[(row * a.heads + first_head) * kHeadDim + i] = 0;
    return;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* const counter = counters + row * gridDim.y + blockIdx.y;
    is_last = atomicAdd(counter, 1) == slots - 1;
    if (is_last) *counter = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int i = threadIdx.x; i < heads * kHeadDim; i += kThreads) {
    const int head = i / kHeadDim, d = i % kHeadDim;
    float maximum = -INFINITY, sum = 0, value = 0;
    for (int split = first_split; split < end_split; ++split) {
      const float* part = part_of(split, head);
      const float next = __ldcg(part), merged = fmaxf(maximum, next);
      const float old_factor = rescale(maximum, merged), new_factor = rescale(next, merged);
      sum = __fmaf_rn(sum, old_factor, __ldcg(part + 1) * new_factor);
      value = __fmaf_rn(value, old_factor, __ldcg(part + 2 + d) * new_factor);
      maximum = merged;
    }
    a.out[(row * a.heads + first_head) * kHeadDim + i] = value / sum;
  }
}

}  // namespace

bool supports_attention_rows(const AttentionArgs& a, int64_t capacity, int64_t max_positions) {
  return capacity <= kMostRows && attention_rows_scratch(a, capacity, max_positions) <= kMostScratch;
}

int64_t attention_rows_scratch(const AttentionArgs& a, int64_t capacity, int64_t max_positions) {
  return capacity * a.heads * splits_of(max_positions) * part_floats(a.cache.head_dim) * 4;
}

template <int kHeadDim>
void attention_rows(const AttentionArgs& a, const RopeAppendArgs* rope, const CudaLaunch& l) {
  constexpr int64_t kBlocksPerProcessor = 2;
  const int64_t groups = int64_t{a.cache.kv_heads} * head_tiles(a), splits = splits_of(l.max_positions);
  const int64_t room = l.multiprocessors * kBlocksPerProcessor / (l.capacity * groups);
  const dim3 grid(static_cast<unsigned>(l.capacity), static_cast<unsigned>(groups),
                  static_cast<unsigned>(std::clamp<int64_t>(room, 1, splits)));
  constexpr size_t kTiles = kChunksPerSplit * ChunkTile<kHeadDim>::kBytes, kQueries = kTileHeads * kHeadDim * 4;
  auto* const scratch = reinterpret_cast<float*>(l.scratch);
  if (rope != nullptr) {
    launch(attention_rows_kernel<kHeadDim, true>, grid, kThreads, kTiles + kQueries, l.stream, a, *rope, scratch,
           l.counters, splits);
  } else {
    launch(attention_rows_kernel<kHeadDim, false>, grid, kThreads, kTiles, l.stream, a, RopeAppendArgs{}, scratch,
           l.counters, splits);
  }
}

template void attention_rows<32>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);
template void attention_rows<64>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);
template void attention_rows<128>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);

}  // namespace rafter::kernels::cuda

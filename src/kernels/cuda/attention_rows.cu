// Attention of few rows: a block takes one row and one kv head, the query heads that share it as the 16 rows
// of the tensor cores' tile, and every warp one chunk of a split. A fixed grid of `slots` blocks walks a
// row's splits; with more than one split each leaves its part in scratch, and the block that is done last
// merges them.
//
// With one row in the step the same kernel rotates the queries and the key and appends to the cache: no other
// row waits for them.
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

// Of a block's shared memory: a split's chunks, and the queries and the key that a fused launch rotates.
constexpr int64_t tiles_bytes(int head_dim) { return int64_t{kChunksPerSplit} * 2 * kChunk * head_dim * 2; }
constexpr int64_t queries_bytes(int head_dim) { return int64_t{kTileHeads + 1} * head_dim * 4; }
constexpr int64_t kStaticBytes = 1024;

// merge() of one value.
struct Merged {
  float maximum = -INFINITY, sum = 0, value = 0;
  __device__ void add(float next_maximum, float next_sum, float next_value) {
    const float merged = fmaxf(maximum, next_maximum);
    const float old_factor = rescale(maximum, merged), new_factor = rescale(next_maximum, merged);
    sum = __fmaf_rn(sum, old_factor, next_sum * new_factor);
    value = __fmaf_rn(value, old_factor, next_value * new_factor);
    maximum = merged;
  }
};

int64_t splits_of(int64_t max_positions) { return (max_positions + kSplitPositions - 1) / kSplitPositions; }

int head_tiles(const AttentionArgs& a) { return (a.heads / a.cache.kv_heads + kTileHeads - 1) / kTileHeads; }

template <int kHeadDim, bool kFused, bool kBf16Out>
__global__ void __launch_bounds__(kThreads)
    attention_rows_kernel(const __grid_constant__ AttentionArgs a,
                          const __grid_constant__ RopeAppendArgs rope, float* scratch, int32_t* counters,
                          int64_t most_splits) {
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
  const int first_head =
      static_cast<int>(kv_head) * shared_by + static_cast<int>(blockIdx.y) % tiles * kTileHeads;
  const int heads = min(kTileHeads, static_cast<int>(kv_head + 1) * shared_by - first_head);
  const int from[2] = {first_visible(a, input, row), first_visible(a, input, row)};
  const int to[2] = {input.visible_to[row], input.visible_to[row]};
  const int32_t* const table = table_of(a, input, row);
  const int first_split = from[0] / static_cast<int>(kSplitPositions);
  const int end_split = (to[0] + static_cast<int>(kSplitPositions) - 1) / static_cast<int>(kSplitPositions);
  const int slots = static_cast<int>(gridDim.z);
  uint8_t* const tile = shared + warp * Tile::kBytes;

  const auto copy_chunk = [&](int split, int end) {  // this warp's chunk of a split, up to position `end`
    const int chunk = split * kChunksPerSplit + warp;
    if (chunk * kChunk < to[0] && (chunk + 1) * kChunk > from[0]) {
      const int64_t offset = chunk_offset(a, table, chunk, kv_head);
      Tile::copy(tile, a.cache.keys + offset, a.cache.values + offset, from[0] - chunk * kChunk,
                 end - chunk * kChunk, lane, 32);
    }
    commit_copies();
  };
  const int own_split = first_split + static_cast<int>(blockIdx.z);
  // One row: all that it sees but itself is there already.
  if (kFused && own_split < end_split) copy_chunk(own_split, to[0] - 1);
  wait_for_inputs();

  const float* queries = a.q + (row * a.heads + first_head) * kHeadDim;
  auto* const rotated_queries = reinterpret_cast<float*>(shared + kChunksPerSplit * Tile::kBytes);
  if constexpr (kFused) {
    const int position = input.positions[row], position_split = position / static_cast<int>(kSplitPositions);
    const bool appends = (position_split - first_split) % slots == static_cast<int>(blockIdx.z);
    const float* const angles = rope.q.angles + row * rope.q.rotated_dims;
    const auto head_at = [&](int head) {  // the queries, then the key
      return head < heads ? rope.q.x + (row * a.heads + first_head + head) * kHeadDim
                          : rope.k.x + (row * a.cache.kv_heads + kv_head) * kHeadDim;
    };
    const float* const value = rope.v + (row * a.cache.kv_heads + kv_head) * kHeadDim;
    const int rotated_heads = heads + (appends ? 1 : 0);
    auto* const new_key = rotated_queries + kTileHeads * kHeadDim;
    const float new_value = appends && static_cast<int>(threadIdx.x) < kHeadDim ? value[threadIdx.x] : 0;
    if (rope.q.layout == RopeLayout::half && rope.q.rotated_dims == kHeadDim) {
      // A thread has one pair of dims of every few heads: everything is asked for before anything is used.
      constexpr int kPairs = kHeadDim / 2, kStep = kThreads / kPairs, kMost = (kTileHeads + kStep) / kStep;
      const int pair = static_cast<int>(threadIdx.x) % kPairs, head = static_cast<int>(threadIdx.x) / kPairs;
      const float cosine = angles[pair], sine = angles[kPairs + pair];
      float first[kMost], second[kMost];
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (head + i * kStep >= rotated_heads) break;
        const float* const x = head_at(head + i * kStep);
        first[i] = x[pair], second[i] = x[kPairs + pair];
      }
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        const int own = head + i * kStep;
        if (own >= rotated_heads) break;
        float* const out = own < heads ? rotated_queries + own * kHeadDim : new_key;
        const float magnitude = own < heads ? rope.q.magnitude : rope.k.magnitude;
        const float2 both = rotated_pair(magnitude * first[i], magnitude * second[i], cosine, sine);
        out[pair] = both.x, out[kPairs + pair] = both.y;
      }
    } else {
      for (int i = threadIdx.x; i < rotated_heads * kHeadDim; i += kThreads) {
        const int own = i / kHeadDim;
        float* const out = own < heads ? rotated_queries + own * kHeadDim : new_key;
        out[i % kHeadDim] = rotated(own < heads ? rope.q : rope.k, head_at(own), angles, i % kHeadDim);
      }
    }
    queries = rotated_queries;
    wait_copies<0>();
    __syncthreads();
    if (appends && static_cast<int>(threadIdx.x) < kHeadDim) {
      const int64_t offset = cache_offset(input, a.cache, row, kv_head, position);
      auto* const own_tile = reinterpret_cast<std::byte*>(
          shared + position % static_cast<int>(kSplitPositions) / kChunk * Tile::kBytes);
      const int d = threadIdx.x;
      static_assert(kThreads >= kHeadDim);
      store_cached(a.cache, a.cache.keys + offset, d, new_key[d]);
      store_cached(a.cache, a.cache.values + offset, d, new_value);
      if (position_split == own_split) {
        store_cached(a.cache, own_tile + Tile::key_at(position % kChunk, d / 8), d % 8, new_key[d]);
        store_cached(a.cache, own_tile + Tile::kSideBytes + Tile::value_at(position % kChunk, d / 8), d % 8,
                     new_value);
      } else {
        __threadfence_block();  // it is read back from the cache, by this block
      }
    }
    __syncthreads();
  }
  uint32_t q[kHeadDim / 16][4];
  load_queries<kHeadDim>(
      [&](int r, int d) { return g + 8 * r < heads ? queries + (g + 8 * r) * kHeadDim + d : nullptr; }, lane,
      q);
  const auto part_of = [&](int split, int head) {
    return scratch + ((row * a.heads + first_head + head) * most_splits + split) * part_floats(kHeadDim);
  };
  // Over its own tile each warp leaves its part, [row][head_dim + kPad] values, and beside the tiles maxima
  // and sums.
  constexpr int kPad = 4, kStride = kHeadDim + kPad;
  static_assert(kTileHeads * kStride * 4 <= Tile::kBytes);
  __shared__ float maxima[kChunksPerSplit][kTileHeads], sums[kChunksPerSplit][kTileHeads];
  const bool only = end_split - first_split <= 1;
  const auto put = [&](int i, float value) {
    const int64_t at = (row * a.heads + first_head) * kHeadDim + i;
    if constexpr (kBf16Out)
      reinterpret_cast<__nv_bfloat16*>(a.out)[at] = __float2bfloat16_rn(value);
    else
      a.out[at] = value;
  };
  for (int split = own_split; split < end_split; split += slots) {
    const int chunk = split * kChunksPerSplit + warp;
    if (!kFused || split != own_split) copy_chunk(split, to[0]);
    wait_copies<0>();
    __syncwarp();
    if (chunk * kChunk < to[0] && (chunk + 1) * kChunk > from[0]) {
      const auto part = attend<kHeadDim>(q, tile, chunk * kChunk, from, to, a.scale * kLog2e, lane);
      __syncwarp();
      auto* const left = reinterpret_cast<float*>(tile);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (g + 8 * r >= heads) continue;
        if (t == 0) maxima[warp][g + 8 * r] = part.maximum[r], sums[warp][g + 8 * r] = part.sum[r];
#pragma unroll
        for (int i = 0; i < kHeadDim / 8; ++i)
          *reinterpret_cast<float2*>(left + (g + 8 * r) * kStride + i * 8 + 2 * t) = {
              part.values[i][2 * r], part.values[i][2 * r + 1]};
      }
    }
    __syncthreads();
    const int first = max(from[0] / kChunk - split * kChunksPerSplit, 0);
    const int end = min((to[0] + kChunk - 1) / kChunk - split * kChunksPerSplit, kChunksPerSplit);
#pragma unroll 4
    for (int i = threadIdx.x; i < heads * kHeadDim; i += kThreads) {
      const int head = i / kHeadDim, d = i % kHeadDim;
      Merged all;
      for (int c = first; c < end; ++c)
        all.add(maxima[c][head], sums[c][head],
                reinterpret_cast<const float*>(shared + c * Tile::kBytes)[head * kStride + d]);
      if (only) {
        put(i, all.value / all.sum);
      } else {
        float* const part = part_of(split, head);
        part[2 + d] = all.value;
        if (d == 0) part[0] = all.maximum, part[1] = all.sum;
      }
    }
    __syncthreads();  // the tiles are read as parts
  }
  if (only) {
    if (end_split <= first_split && blockIdx.z == 0)
      for (int i = threadIdx.x; i < heads * kHeadDim; i += kThreads) put(i, 0);
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
    Merged all;
    for (int split = first_split; split < end_split; ++split) {
      const float* part = part_of(split, head);
      all.add(__ldcg(part), __ldcg(part + 1), __ldcg(part + 2 + d));
    }
    put(i, all.value / all.sum);
  }
}

}  // namespace

bool supports_attention_rows(const AttentionArgs& a, const CudaLaunch& l) {
  return l.capacity <= kMostRows && attention_rows_scratch(a, l) <= kMostScratch &&
         tiles_bytes(a.cache.head_dim) + queries_bytes(a.cache.head_dim) + kStaticBytes <= l.shared_bytes;
}

int64_t attention_rows_scratch(const AttentionArgs& a, const CudaLaunch& l) {
  return l.capacity * a.heads * splits_of(l.max_positions) * part_floats(a.cache.head_dim) * 4;
}

template <int kHeadDim>
void attention_rows(const AttentionArgs& a, const RopeAppendArgs* rope, const CudaLaunch& l) {
  // Blocks without a split to do hold up those of the next kernel: few of them where contexts are short.
  constexpr int64_t kFewSplits = 16;
  const int64_t groups = int64_t{a.cache.kv_heads} * head_tiles(a), splits = splits_of(l.max_positions);
  const int64_t blocks = splits > kFewSplits ? l.multiprocessors * 2 : l.multiprocessors / 4;
  const int64_t room = blocks / (l.capacity * groups);
  const dim3 grid(static_cast<unsigned>(l.capacity), static_cast<unsigned>(groups),
                  static_cast<unsigned>(std::clamp<int64_t>(room, 1, splits)));
  constexpr size_t kTiles = tiles_bytes(kHeadDim), kQueries = queries_bytes(kHeadDim);
  static_assert(kTiles == kChunksPerSplit * ChunkTile<kHeadDim>::kBytes);
  auto* const scratch = reinterpret_cast<float*>(l.scratch);
  if (rope != nullptr) {
    launch(attention_rows_kernel<kHeadDim, true, false>, grid, kThreads, kTiles + kQueries, l.stream, a,
           *rope, scratch, l.counters, splits);
    return;
  }
  launch(l.bf16_out ? attention_rows_kernel<kHeadDim, false, true>
                    : attention_rows_kernel<kHeadDim, false, false>,
         grid, kThreads, kTiles, l.stream, a, RopeAppendArgs{}, scratch, l.counters, splits);
}

template void attention_rows<32>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);
template void attention_rows<64>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);
template void attention_rows<128>(const AttentionArgs&, const RopeAppendArgs*, const CudaLaunch&);

}  // namespace rafter::kernels::cuda

// Attention of many rows: a block takes 64 neighbouring rows and one head, each warp 16 of the rows. Rows of
// one sequence that stand together share the chunks that the block brings into shared memory; a block with
// rows of several sequences walks them one after another.
#include "kernels/cuda/attention_bodies.cuh"
#include "kernels/cuda/attention_chunk.cuh"
#include "kernels/cuda/launch.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kRows = 16 * kWarps;

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention_prompt_kernel(const __grid_constant__ AttentionArgs a) {
  using Tile = ChunkTile<kHeadDim>;
  constexpr int kValues = kHeadDim / 8 * 4;  // a thread's
  extern __shared__ __align__(128) uint8_t shared[];
  auto* const whole =
      reinterpret_cast<float*>(shared + 2 * Tile::kBytes) + threadIdx.x;  // of finished splits
  start_next();
  wait_for_inputs();
  const StepInput& input = *a.input;
  // The last rows of a prompt see most: they begin first.
  const int first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int rows = min(input.rows - first_row, kRows);
  if (rows <= 0) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t head = blockIdx.y, kv_head = head / (a.heads / a.cache.kv_heads);

  for (int begin = 0, end; begin < rows; begin = end) {  // rows of one sequence
    const int32_t sequence = input.sequences[first_row + begin];
    int least = first_visible(a, input, first_row + begin), most = input.visible_to[first_row + begin];
    for (end = begin + 1; end < rows && input.sequences[first_row + end] == sequence; ++end) {
      least = min(least, first_visible(a, input, first_row + end));
      most = max(most, input.visible_to[first_row + end]);
    }
    const int32_t* const table = table_of(a, input, first_row + begin);
    int from[2], to[2], warp_from = INT32_MAX, warp_to = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = warp * 16 + g + 8 * r;
      const bool own = row >= begin && row < end;
      from[r] = own ? first_visible(a, input, first_row + row) : INT32_MAX;
      to[r] = own ? input.visible_to[first_row + row] : 0;
      warp_from = min(warp_from, from[r]), warp_to = max(warp_to, to[r]);
    }
    warp_from = __reduce_min_sync(~0u, warp_from), warp_to = __reduce_max_sync(~0u, warp_to);
    uint32_t q[kHeadDim / 16][4];
    load_queries<kHeadDim>(
        [&](int r, int d) {
          const int row = warp * 16 + g + 8 * r;
          return row >= begin && row < end
                     ? a.q + ((first_row + row) * int64_t{a.heads} + head) * kHeadDim + d
                     : nullptr;
        },
        lane, q);

    AttentionPart<kHeadDim> split;
    float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
#pragma unroll
    for (int i = 0; i < kValues; ++i) whole[i * kThreads] = 0;
    const auto end_split = [&] {
      float old_factor[2], new_factor[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float merged = fmaxf(maximum[r], split.maximum[r]);
        old_factor[r] = rescale(maximum[r], merged), new_factor[r] = rescale(split.maximum[r], merged);
        sum[r] = __fmaf_rn(sum[r], old_factor[r], split.sum[r] * new_factor[r]);
        maximum[r] = merged;
      }
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        float& value = whole[i * kThreads];
        value = __fmaf_rn(value, old_factor[i % 4 / 2], split.values[i / 4][i % 4] * new_factor[i % 4 / 2]);
      }
      split = {};
    };
    const auto copy = [&](int chunk) {
      const int64_t offset = chunk_offset(a, table, chunk, kv_head);
      Tile::copy(shared + chunk % 2 * Tile::kBytes, a.cache.keys + offset, a.cache.values + offset,
                 least - chunk * kChunk, most - chunk * kChunk, threadIdx.x, kThreads);
    };
    const int first_chunk = least / kChunk, end_chunk = (most + kChunk - 1) / kChunk;
    if (first_chunk < end_chunk) copy(first_chunk);
    commit_copies();
    for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
      if (chunk + 1 < end_chunk) copy(chunk + 1);
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      if (chunk * kChunk < warp_to && (chunk + 1) * kChunk > warp_from) {
        const auto part = attend<kHeadDim>(q, shared + chunk % 2 * Tile::kBytes, chunk * kChunk, from, to,
                                           a.scale * kLog2e, lane);
        merge(split, part);
      }
      if (chunk % kChunksPerSplit == kChunksPerSplit - 1) end_split();
      __syncthreads();
    }
    wait_copies<0>();
    end_split();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = warp * 16 + g + 8 * r;
      if (row < begin || row >= end) continue;
      float* const out = a.out + ((first_row + row) * int64_t{a.heads} + head) * kHeadDim;
      const bool none = from[r] >= to[r];
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        const float first = whole[(i * 4 + 2 * r) * kThreads], second = whole[(i * 4 + 2 * r + 1) * kThreads];
        *reinterpret_cast<float2*>(out + i * 8 + 2 * t) = {none ? 0 : first / sum[r],
                                                           none ? 0 : second / sum[r]};
      }
    }
    __syncthreads();
  }
}

}  // namespace

template <int kHeadDim>
void attention_prompt(const AttentionArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>((l.capacity + kRows - 1) / kRows), static_cast<unsigned>(a.heads));
  constexpr size_t kShared = 2 * ChunkTile<kHeadDim>::kBytes + kHeadDim / 8 * 4 * kThreads * 4;
  static_assert(kShared <= kLeastSharedBytes);
  launch(attention_prompt_kernel<kHeadDim>, grid, kThreads, kShared, l.stream, a);
}

template void attention_prompt<32>(const AttentionArgs&, const CudaLaunch&);
template void attention_prompt<64>(const AttentionArgs&, const CudaLaunch&);
template void attention_prompt<128>(const AttentionArgs&, const CudaLaunch&);

}  // namespace rafter::kernels::cuda

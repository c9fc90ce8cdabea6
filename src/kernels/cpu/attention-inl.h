// The attention kernels of one tier: which worker computes which tile or split, and where partial results go.
// What a split computes is in attention_split-inl.h; the plan is in attention_plan.h.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_split-inl.h"
#include "kernels/cpu/kv_rotation-inl.h"
#include "kernels/op/kernel_table.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kMaxHeadDim = 512;

// ---- over the block tables

// The merged results of a tile's queries: [queries] maxima and sums, [queries][head_dim] values.
constexpr int64_t merged_floats(int64_t queries, int64_t head_dim) { return queries * (head_dim + 2); }

struct CacheAttention {
  const AttentionArgs& args;
  AttentionPlan plan;
  TileMemory tile;
  float* merged;  // merged_floats(kTileQueries)
  float* slots;   // [kv_head][slot][2 + head_dim]
  int64_t group;  // query heads per kv head
  int64_t head_dim;

  const StepInput& input() const { return *args.input; }

  // Offset of a query's head in q and out.
  int64_t head_offset(int64_t kv_head, int64_t query) const {
    return (query / group * args.heads + kv_head * group + query % group) * head_dim;
  }
  float* slot(int64_t kv_head, int64_t index) const {
    return slots + (kv_head * plan.slots + index) * (2 + head_dim);
  }
};

// Copies kWidth queries as [head_dim][kWidth], so that one load broadcasts.
template <int kWidth>
void pack_register_tile(const float* const* q, int64_t head_dim, float* packed) {
  for (int64_t d = 0; d < head_dim; ++d) {
    for (int j = 0; j < kWidth; ++j) packed[d * kWidth + j] = q[j][d];
  }
}

void pack_queries(const float* const* q, int64_t queries, int64_t head_dim, Stored stored, float* packed) {
  for_register_tiles(queries, [&](int64_t i, auto width) {
#if defined(__AVX512BF16__)
    if (is_paired(stored)) {
      auto* words = reinterpret_cast<uint32_t*>(packed) + i * head_dim / 2;
      return pack_query_pairs<width.value>(q + i, head_dim, words);
    }
#else
    (void)stored;
#endif
    pack_register_tile<width.value>(q + i, head_dim, packed + i * head_dim);
  });
}

void pack_tile(const CacheAttention& job, int64_t kv_head, const AttentionTile& tile) {
  const float* q[kTileQueries];
  for (int64_t i = 0; i < tile.queries; ++i)
    q[i] = job.args.q + job.head_offset(kv_head, tile.first_query + i);
  if (job.args.cache.has_codes()) {  // as the keys are; the sums' memory is free until the first split
    for (int64_t i = 0; i < tile.queries; ++i) {
      float* rotated = job.tile.sums + i * job.head_dim;
      std::memcpy(rotated, q[i], job.head_dim * 4);
      rotate_row(job.args.cache, rotated);
      q[i] = rotated;
    }
  }
  pack_queries(q, tile.queries, job.head_dim, stored_as(job.args.cache), job.tile.packed);
}

// Points at one split's keys and values of the sequence of row b; `visible` is not empty in it.
void locate_split(const CacheAttention& job, int64_t kv_head, int64_t b, int64_t split, PositionRange visible,
                  SplitSource* source) {
  const KvLayer& cache = job.args.cache;
  const StepInput& input = job.input();
  const int32_t* table = block_table(input, cache, b);
  const int64_t start = split * kSplit;
  const LocalRange range = intersect({visible.from - start, visible.to - start}, {0, kSplit});
  source->from = range.from;
  source->to = range.to;
  source->stored = stored_as(cache);
  source->head_dim = job.head_dim;
  source->group_size = cache.codes.group_size;
  const int64_t row_bytes = cache.row_bytes();
  const int64_t first = range.from / kBlockPositions * kBlockPositions;
  for (int64_t block = first; block < range.to; block += kBlockPositions) {
    const int64_t id = table[(start + block) / kBlockPositions];
    const int64_t offset = id * cache.block_stride + cache.offset(kv_head, 0);
    if (cache.has_codes()) {
      const int64_t scales = id * cache.block_stride + cache.scale_offset(kv_head, 0, 0);
      source->key_scales[block / kBlockPositions] = cache.keys + scales;
      source->value_scales[block / kBlockPositions] = cache.values + scales;
    }
    for (int64_t slot = 0; slot < kBlockPositions; ++slot) {
      source->keys[block + slot] = cache.keys + offset + slot * row_bytes;
      source->values[block + slot] = cache.values + offset + slot * row_bytes;
    }
  }
  for (int64_t p = range.to; p < kSplit + kFetchAhead; ++p) source->values[p] = source->values[range.to - 1];
}

// A query's output; its values were stored rotated if they are codes.
void finish_query(const CacheAttention& job, const Merged& merged, int64_t kv_head, int64_t query) {
  float* out = job.args.out + job.head_offset(kv_head, query);
  write_output(merged, job.head_dim, out);
  if (job.args.cache.has_codes()) rotate_row(job.args.cache, out);
}

// One split for all queries of a tile (packed before).
void attend_tile_split(const CacheAttention& job, int64_t kv_head, const AttentionTile& tile, int64_t split) {
  int64_t row = -1;
  PositionRange visible;
  for (int64_t i = 0; i < tile.queries; ++i) {
    if ((tile.first_query + i) / job.group != row) {
      row = (tile.first_query + i) / job.group;
      visible = visible_range(job.input(), row, job.args.window);
    }
    const LocalRange seen =
        intersect({visible.from - split * kSplit, visible.to - split * kSplit}, {0, kSplit});
    job.tile.from[i] = static_cast<int32_t>(seen.from < kSplit ? seen.from : kSplit);
    job.tile.to[i] = static_cast<int32_t>(seen.to > 0 ? seen.to : 0);
  }
  SplitSource source;
  locate_split(job, kv_head, row, split, tile.visible, &source);
  attend_split(job.tile, tile.queries, source, job.args.scale, job.args.softcap);
}

void attend_tile(const CacheAttention& job, int64_t kv_head, const AttentionTile& tile) {
  pack_tile(job, kv_head, tile);
  float* values = job.merged + 2 * kTileQueries;
  for (int64_t i = 0; i < 2 * kTileQueries; ++i) job.merged[i] = 0;
  const auto merged_of = [&](int64_t i) {
    return Merged{job.merged[2 * i], job.merged[2 * i + 1], values + i * job.head_dim};
  };
  const int64_t first = tile.visible.first_split(), splits = tile.visible.splits();
  for (int64_t split = first; split < first + splits; ++split) {
    attend_tile_split(job, kv_head, tile, split);
    for (int64_t i = 0; i < tile.queries; ++i) {
      if (job.tile.from[i] >= job.tile.to[i]) continue;
      Merged merged = merged_of(i);
      merge_split(merged, job.tile.largest[i], job.tile.totals[i], job.tile.sums + i * job.head_dim,
                  job.head_dim);
      job.merged[2 * i] = merged.largest;
      job.merged[2 * i + 1] = merged.total;
    }
  }
  for (int64_t i = 0; i < tile.queries; ++i) {
    finish_query(job, merged_of(i), kv_head, tile.first_query + i);
  }
}

void attend_item_by_split(const CacheAttention& job, int64_t kv_head, int64_t item) {
  const AttentionTile& tile = job.plan.tile_of_item(item);
  const int64_t index = item - tile.first_item;
  pack_tile(job, kv_head, tile);
  attend_tile_split(job, kv_head, tile, tile.visible.first_split() + index);
  for (int64_t i = 0; i < tile.queries; ++i) {
    if (job.tile.from[i] >= job.tile.to[i]) continue;
    float* slot = job.slot(kv_head, tile.first_slot + index * tile.queries + i);
    slot[0] = job.tile.largest[i];
    slot[1] = job.tile.totals[i];
    std::memcpy(slot + 2, job.tile.sums + i * job.head_dim, job.head_dim * 4);
  }
}

void merge_query(const CacheAttention& job, int64_t kv_head, int64_t query) {
  const AttentionTile& tile = job.plan.tile_of_query(query);
  const PositionRange visible = visible_range(job.input(), query / job.group, job.args.window);
  const int64_t first = visible.first_split(), splits = visible.splits();
  Merged merged = {0, 0, job.merged};
  for (int64_t split = first; split < first + splits; ++split) {
    const int64_t index = split - tile.visible.first_split();
    const float* slot = job.slot(kv_head, tile.first_slot + index * tile.queries + query - tile.first_query);
    merge_split(merged, slot[0], slot[1], slot + 2, job.head_dim);
  }
  finish_query(job, merged, kv_head, query);
}

int64_t worker_floats(int64_t head_dim) {
  return tile_floats(kTileQueries, head_dim) + merged_floats(kTileQueries, head_dim);
}

KernelTable::Scratch attention_scratch(const AttentionArgs& args, int64_t capacity, int64_t max_positions) {
  return {worker_floats(args.cache.head_dim) * 4 + attention_tiles_bytes(args, capacity),
          attention_slots_bytes(args, capacity, max_positions)};
}

void attention(const AttentionArgs& args, Worker& worker) {
  const int64_t head_dim = args.cache.head_dim, kv_heads = args.cache.kv_heads;
  const AttentionPlan plan = plan_attention(args, worker.count(), worker.shared().size(), worker.scratch(),
                                            worker_floats(head_dim) * 4);
  auto* memory = reinterpret_cast<float*>(worker.scratch().data());
  const CacheAttention job = {args,
                              plan,
                              divide_memory(memory, kTileQueries, head_dim),
                              memory + tile_floats(kTileQueries, head_dim),
                              reinterpret_cast<float*>(worker.shared().data()),
                              args.heads / kv_heads,
                              head_dim};
  const int64_t items = job.plan.items;
  for (int64_t begin, end; worker.claim(0, kv_heads * items, 1, &begin, &end);) {
    // Later tiles see more: the largest first, so that the last ones to finish are small.
    const int64_t kv_head = begin / items, item = items - 1 - begin % items;
    if (job.plan.by_split) {
      attend_item_by_split(job, kv_head, item);
    } else {
      attend_tile(job, kv_head, job.plan.tiles[item]);
    }
  }
  if (!job.plan.by_split) return;
  worker.barrier();
  for (int64_t begin, end; worker.claim(1, kv_heads * job.plan.queries, 1, &begin, &end);) {
    merge_query(job, begin / job.plan.queries, begin % job.plan.queries);
  }
}

// ---- over the step's own rows

// Row b's queries of one kv head over the rows that it sees: positions in order, those of one split together.
void attend_row(const RowAttentionArgs& args, int64_t b, int64_t kv_head, int64_t first_head, int64_t heads) {
  const StepInput& input = *args.input;
  const int64_t head_dim = args.head_dim, kv_width = int64_t{args.kv_heads} * head_dim;
  alignas(64) float memory[tile_floats(kMaxQueryTile, kMaxHeadDim)];
  alignas(64) float values[kMaxQueryTile * kMaxHeadDim];
  const TileMemory tile = divide_memory(memory, heads, head_dim);
  const float* q[kMaxQueryTile];
  for (int64_t i = 0; i < heads; ++i) q[i] = args.q + (b * args.heads + first_head + i) * head_dim;
  pack_queries(q, heads, head_dim, Stored::f32, tile.packed);
  Merged merged[kMaxQueryTile];
  for (int64_t i = 0; i < heads; ++i) merged[i] = {0, 0, values + i * head_dim};

  const PositionRange visible = visible_range(input, b, args.window);
  const int64_t first = visible.first_split(), splits = visible.splits();
  for (int64_t split = first; split < first + splits; ++split) {
    const std::byte* keys[kSplit] = {};
    const std::byte* rows_values[kSplit];
    for (int64_t other = 0; other < input.rows; ++other) {
      const int64_t position = input.positions[other], p = position - split * kSplit;
      if (input.sequences[other] != input.sequences[b] || p < 0 || p >= kSplit) continue;
      if (position < visible.from || position >= visible.to) continue;
      const int64_t offset = other * kv_width + kv_head * head_dim;
      keys[p] = reinterpret_cast<const std::byte*>(args.k + offset);
      rows_values[p] = reinterpret_cast<const std::byte*>(args.v + offset);
    }
    // Positions that no row holds are left out: the others close up.
    SplitSource source;
    source.from = source.to = 0;
    source.stored = Stored::f32;
    source.head_dim = head_dim;
    for (int64_t p = 0; p < kSplit; ++p) {
      if (keys[p] == nullptr) continue;
      source.keys[source.to] = keys[p];
      source.values[source.to++] = rows_values[p];
    }
    if (source.to == 0) continue;
    for (int64_t p = source.to; p % kKeyTile != 0; ++p) source.keys[p] = source.keys[0];
    for (int64_t p = source.to; p < kSplit + kFetchAhead; ++p) source.values[p] = source.values[0];
    for (int64_t i = 0; i < heads; ++i) tile.from[i] = 0, tile.to[i] = static_cast<int32_t>(source.to);
    attend_split(tile, heads, source, args.scale, args.softcap);
    for (int64_t i = 0; i < heads; ++i) {
      merge_split(merged[i], tile.largest[i], tile.totals[i], tile.sums + i * head_dim, head_dim);
    }
  }
  for (int64_t i = 0; i < heads; ++i) {
    write_output(merged[i], head_dim, args.out + (b * args.heads + first_head + i) * head_dim);
  }
}

void row_attention(const RowAttentionArgs& args, Worker& worker) {
  const int64_t group = args.heads / args.kv_heads;
  const int64_t total = int64_t{args.input->rows} * args.kv_heads;
  for (int64_t begin, end; worker.claim(0, total, 1, &begin, &end);) {
    const int64_t b = begin / args.kv_heads, kv_head = begin % args.kv_heads;
    for (int64_t i = 0; i < group;) {
      const int64_t heads = register_tile(group - i);
      attend_row(args, b, kv_head, kv_head * group + i, heads);
      i += heads;
    }
  }
}

void add_attention_kernels(KernelTable& table) {
  table.attention = attention;
  table.row_attention = row_attention;
  table.attention_scratch = attention_scratch;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

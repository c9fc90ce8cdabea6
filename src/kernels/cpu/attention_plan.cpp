#include "kernels/cpu/attention_plan.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::kernels {
namespace {

// With this many items per worker, whole tiles keep a team evenly busy.
constexpr int64_t kItemsPerWorker = 8;

// Slots per query head that the shared scratch has room for, unless one row needs more: splits of a few rows.
constexpr int64_t kMinimumSlots = 1024;

int64_t max_splits_of_row(const AttentionArgs& args, int64_t max_positions) {
  const int64_t all = (max_positions + kSplitPositions - 1) / kSplitPositions;
  if (args.window == 0) return all;
  return std::min(all, (args.window - 1) / kSplitPositions + 2);
}

int64_t query_group(const AttentionArgs& args) { return args.heads / args.cache.kv_heads; }

// Whether two ranges overlap or touch, so that their union holds nothing that neither does.
bool joins(PositionRange a, PositionRange b) {
  return a.empty() || b.empty() || (b.from <= a.to && a.from <= b.to);
}

PositionRange join(PositionRange a, PositionRange b) {
  if (a.empty()) return b;
  return b.empty() ? a : PositionRange{std::min(a.from, b.from), std::max(a.to, b.to)};
}

// The tile that starts at a query: the rows that follow it as long as they are of its sequence and see what
// it sees or what lies beside that.
AttentionTile tile_at(const AttentionArgs& args, int64_t first_query) {
  const StepInput& input = *args.input;
  const int64_t group = query_group(args), first_row = first_query / group;
  AttentionTile tile;
  tile.first_query = first_query;
  for (int64_t b = first_row; b < input.rows && tile.queries < kTileQueries; ++b) {
    const PositionRange range = visible_range(input, b, args.window);
    if (input.sequences[b] != input.sequences[first_row] || !joins(tile.visible, range)) break;
    tile.visible = join(tile.visible, range);
    tile.queries = std::min(kTileQueries, (b + 1) * group - first_query);
  }
  return tile;
}

}  // namespace

bool PositionRange::empty() const { return from >= to; }
int64_t PositionRange::first_split() const { return from / kSplitPositions; }
int64_t PositionRange::splits() const { return empty() ? 0 : (to - 1) / kSplitPositions + 1 - first_split(); }

PositionRange visible_range(const StepInput& input, int64_t b, int64_t window) {
  int64_t from = std::max(0, input.visible_from[b]);
  if (window > 0) from = std::max(from, input.positions[b] - window + 1);
  return {from, input.visible_to[b]};
}

const AttentionTile& AttentionPlan::tile_of_item(int64_t item) const {
  const auto after =
      std::upper_bound(tiles.begin(), tiles.end(), item,
                       [](int64_t i, const AttentionTile& tile) { return i < tile.first_item; });
  return *(after - 1);
}

const AttentionTile& AttentionPlan::tile_of_query(int64_t query) const {
  const auto after =
      std::upper_bound(tiles.begin(), tiles.end(), query,
                       [](int64_t i, const AttentionTile& tile) { return i < tile.first_query; });
  return *(after - 1);
}

size_t attention_tiles_bytes(const AttentionArgs& args, int64_t capacity) {
  const int64_t tiles =
      capacity + capacity * query_group(args) / kTileQueries;  // at most one short one per row
  return tiles * sizeof(AttentionTile);
}

int64_t attention_slot_bytes(int64_t head_dim) { return (head_dim + 2) * 4; }

size_t attention_slots_bytes(const AttentionArgs& args, int64_t capacity, int64_t max_positions) {
  const int64_t one_row = max_splits_of_row(args, max_positions);
  const int64_t slots = std::max(one_row, std::min(one_row * capacity, kMinimumSlots));
  return args.heads * slots * attention_slot_bytes(args.cache.head_dim);
}

AttentionPlan plan_attention(const AttentionArgs& args, int workers, size_t shared_bytes,
                             std::span<std::byte> scratch, size_t tiles_offset) {
  RAFTER_CHECK(tiles_offset <= scratch.size(), "attention needs {} bytes of scratch, has {}", tiles_offset,
               scratch.size());
  auto* tiles = reinterpret_cast<AttentionTile*>(scratch.data() + tiles_offset);
  const int64_t max_tiles = (scratch.size() - tiles_offset) / sizeof(AttentionTile);
  AttentionPlan plan;
  plan.queries = args.input->rows * query_group(args);
  int64_t count = 0, splits = 0;
  bool divisible = false;
  for (int64_t query = 0; query < plan.queries; query += tiles[count - 1].queries) {
    RAFTER_CHECK(count < max_tiles, "attention scratch holds {} tiles", max_tiles);
    AttentionTile tile = tile_at(args, query);
    tile.first_item = splits;
    tile.first_slot = plan.slots;
    splits += tile.visible.splits();
    plan.slots += tile.visible.splits() * tile.queries;
    divisible = divisible || tile.visible.splits() > 1;
    tiles[count++] = tile;
  }
  plan.tiles = {tiles, static_cast<size_t>(count)};
  const int64_t kv_heads = args.cache.kv_heads;
  const int64_t slots_bytes = plan.slots * kv_heads * attention_slot_bytes(args.cache.head_dim);
  plan.by_split = workers > 1 && divisible && count * kv_heads < kItemsPerWorker * workers &&
                  slots_bytes <= static_cast<int64_t>(shared_bytes);
  plan.items = plan.by_split ? splits : count;
  return plan;
}

}  // namespace rafter::kernels

// How one step's attention is cut into work items. Compiled once, the same in every tier; nothing here
// changes a result, only who computes it.
//
// The queries of one kv head are numbered row · r + i (i < r = H / KV). A tile is up to kTileQueries of them
// in a row, all of one sequence, so that keys and values are read once for all. An item is a tile of one kv
// head with all its splits, or, when there are too few of those for the team, one split of it, whose partial
// result then lies in a slot of the shared scratch until a second phase merges it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/op/attention.h"
#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

inline constexpr int64_t kTileQueries = 64;

struct PositionRange {
  int64_t from = 0, to = 0;

  bool empty() const;
  int64_t first_split() const;
  int64_t splits() const;
};

// What row b sees under a layer's window (0: none).
PositionRange visible_range(const StepInput& input, int64_t b, int64_t window);

struct AttentionTile {
  int64_t first_query = 0;
  int64_t queries = 0;
  PositionRange visible;   // of all its rows together
  int64_t first_item = 0;  // of this kv head's items
  int64_t first_slot = 0;  // of this kv head's slots; slot first_slot + split · queries + query
};

struct AttentionPlan {
  std::span<const AttentionTile> tiles;
  bool by_split = false;
  int64_t items = 0;    // per kv head
  int64_t slots = 0;    // per kv head, by_split only
  int64_t queries = 0;  // per kv head

  const AttentionTile& tile_of_item(int64_t item) const;    // item < items, by_split only
  const AttentionTile& tile_of_query(int64_t query) const;  // query < queries
};

// Bytes that a step of `capacity` rows may need for its tiles.
size_t attention_tiles_bytes(const AttentionArgs& args, int64_t capacity);

// Bytes of one slot: the maximum, the sum, and head_dim weighted values.
int64_t attention_slot_bytes(int64_t head_dim);

// Shared scratch that lets small steps be divided by split.
size_t attention_slots_bytes(const AttentionArgs& args, int64_t capacity, int64_t max_positions);

// Every worker makes its own copy of the plan, in its scratch from `tiles_offset` on.
AttentionPlan plan_attention(const AttentionArgs& args, int workers, size_t shared_bytes,
                             std::span<std::byte> scratch, size_t tiles_offset);

}  // namespace rafter::kernels

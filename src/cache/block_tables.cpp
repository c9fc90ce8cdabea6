#include "cache/block_tables.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::cache {

using kernels::kBlockPositions;

base::Result<BlockTables> BlockTables::create(BlockStore* store, const Shape& shape) {
  BlockTables tables;
  tables.store_ = store;
  tables.shape_ = shape;
  tables.stride_ = blocks_for(shape.max_positions);
  tables.entries_ = shape.entries;
  if (tables.entries_ == nullptr) {
    const auto entries = static_cast<size_t>(shape.max_sequences * tables.stride_);
    RAFTER_ASSIGN(tables.memory_, device::HostMemory::reserve(entries * sizeof(int32_t)));
    tables.entries_ = reinterpret_cast<int32_t*>(tables.memory_.data());
  }
  tables.sequences_.resize(static_cast<size_t>(shape.max_sequences));
  tables.holders_.resize(static_cast<size_t>(shape.max_sequences));
  return tables;
}

bool BlockTables::exists(int32_t sequence) const {
  return sequence >= 0 && static_cast<size_t>(sequence) < sequences_.size() && length(sequence) >= 0;
}

base::Result<int32_t> BlockTables::create_sequence() {
  for (size_t sequence = 0; sequence < sequences_.size(); ++sequence) {
    if (sequences_[sequence].length >= 0) continue;
    sequences_[sequence] = {0, 0};
    return static_cast<int32_t>(sequence);
  }
  return base::Error{base::ErrorCode::out_of_memory,
                     fmt::format("all {} sequences are in use", sequences_.size()), "cache",
                     "finish or cancel another request"};
}

void BlockTables::release(int32_t sequence) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  truncate(sequence, 0);
  span(sequence) = {};
}

bool BlockTables::tail_is_shared(int32_t sequence) const {
  const int64_t held = length(sequence);
  return held % kBlockPositions != 0 && store_->references(row(sequence)[held / kBlockPositions]) > 1;
}

// The first block that a row at position `length` sees.
int64_t BlockTables::first_needed(int64_t length) const {
  if (shape_.window == 0) return 0;
  return std::max<int64_t>(0, length - shape_.window + 1) / kBlockPositions;
}

bool BlockTables::can_reenter(const Span& span, int64_t length) const {
  return length == 0 || (length <= span.length && span.first <= first_needed(length));
}

int64_t BlockTables::blocks_of_sequence(int64_t window, int64_t positions, int64_t rows) {
  if (window == 0) return blocks_for(positions);
  // A window before the step, the step, both ends inside a block, and a copy of a shared tail.
  return std::min(blocks_for(positions), blocks_for(window + rows) + 1) + 1;
}

int64_t BlockTables::blocks_needed(int32_t sequence, int64_t count) const {
  const Span& held = span(sequence);
  int64_t needed = blocks_for(held.length + count) - blocks_for(held.length);
  if (count > 0 && tail_is_shared(sequence)) ++needed;
  for (int64_t block = held.first; block < first_needed(held.length); ++block)
    needed -= store_->references(row(sequence)[block]) == 1;
  return std::max<int64_t>(needed, 0);
}

int64_t BlockTables::blocks_held(std::span<const int32_t> sequences) const {
  std::vector<bool> seen(static_cast<size_t>(store_->capacity()));
  int64_t count = 0;
  for (const int32_t sequence : sequences) {
    for (int64_t block = span(sequence).first; block < blocks_for(length(sequence)); ++block) {
      const auto id = static_cast<size_t>(row(sequence)[block]);
      count += !seen[id];
      seen[id] = true;
    }
  }
  return count;
}

int64_t BlockTables::blocks_when_grown(std::span<const Growth> sequences, int64_t rows) const {
  std::vector<bool> seen(static_cast<size_t>(store_->capacity()));
  int64_t count = 0;
  for (const Growth& growth : sequences) {
    const int64_t most = blocks_of_sequence(shape_.window, growth.positions, rows);
    if (growth.sequence < 0 || growth.held == 0) {
      count += most;
      continue;
    }
    // What it holds now it may share; the rest it needs for itself, a copy of a shared tail included.
    const int64_t first = std::max(span(growth.sequence).first, first_needed(growth.held));
    int64_t held = 0;
    for (int64_t block = first; block < blocks_for(growth.held); ++block, ++held) {
      const auto id = static_cast<size_t>(row(growth.sequence)[block]);
      count += !seen[id];
      seen[id] = true;
    }
    const bool copies_tail = growth.held % kBlockPositions != 0;
    count += std::max<int64_t>(0, most - held) + (copies_tail && shape_.window == 0);
  }
  return count;
}

base::Error BlockTables::no_blocks(int64_t needed) const {
  return {base::ErrorCode::out_of_memory,
          fmt::format("{} cache blocks of {} positions are needed and {} of {} are free", needed,
                      kBlockPositions, store_->free_blocks(), store_->capacity()),
          "cache", "finish another request or use a shorter context"};
}

base::Status BlockTables::extend(int32_t sequence, int64_t count) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  if (count == 0) return {};
  Span& held = span(sequence);
  if (held.length + count > shape_.max_positions) {
    return base::Error{base::ErrorCode::out_of_memory,
                       fmt::format("{} positions held and {} more exceed the context limit of {}",
                                   held.length, count, shape_.max_positions),
                       "cache", "use a shorter prompt or a larger --ctx"};
  }
  while (blocks_needed(sequence, count) > store_->free_blocks() && !recent_.empty()) drop(recent_.back());
  if (const int64_t needed = blocks_needed(sequence, count); needed > store_->free_blocks())
    return no_blocks(needed);
  const int64_t first = std::max(held.first, first_needed(held.length));
  release_blocks(sequence, held.first, first);
  held.first = first;
  int32_t* table = row(sequence);
  if (tail_is_shared(sequence)) {
    int32_t& tail = table[held.length / kBlockPositions];
    const int32_t copy = store_->acquire();
    store_->copy_block(tail, copy);
    store_->release(tail);
    tail = copy;
  }
  for (int64_t block = blocks_for(held.length); block < blocks_for(held.length + count); ++block)
    table[block] = store_->acquire();
  held.length += count;
  return {};
}

int64_t BlockTables::reentry_position(int32_t sequence, int64_t length) const {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  length = std::min(length, this->length(sequence));
  if (can_reenter(span(sequence), length)) return length;
  const SnapshotRef snapshot = find_snapshot(sequence, length);
  return snapshot == nullptr ? 0 : std::min(length, snapshot->span.length);
}

// The snapshot from which the longest prefix of at most `length` positions can be had.
BlockTables::SnapshotRef BlockTables::find_snapshot(int32_t sequence, int64_t length) const {
  SnapshotRef best;
  for (const SnapshotRef& snapshot : holders_[static_cast<size_t>(sequence)]) {
    const int64_t reached = std::min(length, snapshot->span.length);
    if (!can_reenter(snapshot->span, reached)) continue;
    if (best == nullptr || reached > std::min(length, best->span.length)) best = snapshot;
  }
  return best;
}

void BlockTables::release_blocks(int32_t sequence, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) store_->release(row(sequence)[block]);
}

// Makes these blocks the sequence's, which holds none.
void BlockTables::share_blocks(int32_t sequence, const int32_t* blocks, Span shared) {
  for (int64_t block = shared.first; block < blocks_for(shared.length); ++block) {
    row(sequence)[block] = blocks[block - shared.first];
    store_->add_reference(row(sequence)[block]);
  }
  span(sequence) = shared;
}

void BlockTables::truncate(int32_t sequence, int64_t length) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  Span& held = span(sequence);
  RAFTER_CHECK(length >= 0 && length <= held.length, "truncate to {} of {}", length, held.length);
  RAFTER_CHECK(reentry_position(sequence, length) == length,
               "position {} of sequence {} cannot be re-entered", length, sequence);
  const bool is_held = length > 0 && can_reenter(held, length);
  release_blocks(sequence, is_held ? blocks_for(length) : held.first, blocks_for(held.length));
  if (is_held) {
    held.length = length;
  } else if (length == 0) {
    held = {0, 0};
  } else {
    const SnapshotRef snapshot = find_snapshot(sequence, length);
    share_blocks(sequence, snapshot->blocks.data(), {length, snapshot->span.first});
    touch(snapshot);
  }
  drop_beyond(sequence, length);
}

base::Result<int32_t> BlockTables::fork(int32_t sequence, int64_t length) {
  RAFTER_CHECK(exists(sequence) && reentry_position(sequence, length) == length, "fork {} at {}", sequence,
               length);
  RAFTER_ASSIGN(const int32_t copy, create_sequence());
  const Span& held = span(sequence);
  if (length > 0 && can_reenter(held, length)) {
    share_blocks(copy, row(sequence) + held.first, {length, held.first});
  } else if (length > 0) {
    const SnapshotRef snapshot = find_snapshot(sequence, length);
    share_blocks(copy, snapshot->blocks.data(), {length, snapshot->span.first});
    touch(snapshot);
  }
  for (const SnapshotRef& snapshot : snapshots(sequence)) {
    if (snapshot->span.length <= length) snapshots(copy).push_back(snapshot);
  }
  return copy;
}

bool BlockTables::take_snapshot(int32_t sequence) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  const Span& held = span(sequence);
  if (shape_.window == 0 || held.length == 0) return true;
  for (const SnapshotRef& snapshot : snapshots(sequence)) {
    if (snapshot->span.length == held.length) return touch(snapshot), true;
  }
  const int64_t first = std::max(held.first, first_needed(held.length));
  if (!make_room(blocks_for(held.length) - first)) return false;
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->span = {held.length, first};
  snapshot->blocks.assign(row(sequence) + first, row(sequence) + blocks_for(held.length));
  for (int32_t block : snapshot->blocks) store_->add_reference(block);
  snapshot_blocks_ += static_cast<int64_t>(snapshot->blocks.size());
  snapshots(sequence).push_back(snapshot);
  recent_.push_front(std::move(snapshot));
  return true;
}

bool BlockTables::make_room(int64_t blocks) {
  if (blocks > shape_.snapshot_blocks) return false;
  while (snapshot_blocks_ + blocks > shape_.snapshot_blocks) drop(recent_.back());
  return true;
}

// Snapshots of positions that are no longer this sequence's, unless forks hold them too.
void BlockTables::drop_beyond(int32_t sequence, int64_t length) {
  std::vector<SnapshotRef>& held = snapshots(sequence);
  std::vector<SnapshotRef> kept, gone;
  for (SnapshotRef& snapshot : held) {
    const bool is_prefix = length > 0 && snapshot->span.length <= length;
    (is_prefix ? kept : gone).push_back(std::move(snapshot));
  }
  held = std::move(kept);
  for (const SnapshotRef& snapshot : gone) {
    const bool is_held = std::any_of(holders_.begin(), holders_.end(), [&](const auto& others) {
      return std::find(others.begin(), others.end(), snapshot) != others.end();
    });
    if (!is_held) drop(snapshot);
  }
}

void BlockTables::drop(const SnapshotRef& dropped) {
  const SnapshotRef snapshot = dropped;  // the argument may be an element of what is erased from
  for (auto& held : holders_) std::erase(held, snapshot);
  recent_.remove(snapshot);
  snapshot_blocks_ -= static_cast<int64_t>(snapshot->blocks.size());
  for (int32_t block : snapshot->blocks) store_->release(block);
}

void BlockTables::touch(const SnapshotRef& snapshot) {
  recent_.splice(recent_.begin(), recent_, std::find(recent_.begin(), recent_.end(), snapshot));
}

}  // namespace rafter::cache

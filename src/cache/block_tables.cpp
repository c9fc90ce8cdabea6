#include "cache/block_tables.h"

#include "base/check.h"

namespace rafter::cache {
base::Result<BlockTables> BlockTables::create(BlockStore* store, int32_t max_sequences,
                                              int64_t max_positions) {
  BlockTables tables;
  tables.store_ = store;
  tables.max_positions_ = max_positions;
  tables.stride_ = blocks_for(max_positions);
  tables.lengths_.assign(static_cast<size_t>(max_sequences), -1);
  const auto entries = static_cast<size_t>(max_sequences * tables.stride_);
  RAFTER_ASSIGN(tables.table_, device::HostMemory::reserve(entries * sizeof(int32_t)));
  return tables;
}

bool BlockTables::exists(int32_t sequence) const {
  return sequence >= 0 && static_cast<size_t>(sequence) < lengths_.size() && length(sequence) >= 0;
}

base::Result<int32_t> BlockTables::create_sequence() {
  for (size_t sequence = 0; sequence < lengths_.size(); ++sequence) {
    if (lengths_[sequence] >= 0) continue;
    lengths_[sequence] = 0;
    return static_cast<int32_t>(sequence);
  }
  return base::Error{base::ErrorCode::out_of_memory,
                     fmt::format("all {} sequences are in use", lengths_.size()), "cache",
                     "finish or cancel another request"};
}

void BlockTables::release(int32_t sequence) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  truncate(sequence, 0);
  lengths_[static_cast<size_t>(sequence)] = -1;
}

bool BlockTables::tail_is_shared(int32_t sequence) const {
  const int64_t held = length(sequence);
  return held % kernels::kBlockPositions != 0 &&
         store_->references(row(sequence)[held / kernels::kBlockPositions]) > 1;
}

int64_t BlockTables::blocks_needed(int32_t sequence, int64_t count) const {
  const int64_t held = length(sequence);
  return blocks_for(held + count) - blocks_for(held) + (count > 0 && tail_is_shared(sequence) ? 1 : 0);
}

base::Status BlockTables::extend(int32_t sequence, int64_t count) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  const int64_t held = length(sequence);
  if (held + count > max_positions_) {
    return base::Error{base::ErrorCode::out_of_memory,
                       fmt::format("{} positions held and {} more exceed the context limit of {}", held,
                                   count, max_positions_),
                       "cache", "use a shorter prompt or a larger --ctx"};
  }
  const int64_t needed = blocks_needed(sequence, count);
  if (needed > store_->free_blocks()) {
    return base::Error{base::ErrorCode::out_of_memory,
                       fmt::format("{} cache blocks of {} positions are needed and {} of {} are free", needed,
                                   kernels::kBlockPositions, store_->free_blocks(), store_->capacity()),
                       "cache", "finish another request or use a shorter context"};
  }
  int32_t* table = row(sequence);
  if (count > 0 && tail_is_shared(sequence)) {
    int32_t& tail = table[held / kernels::kBlockPositions];
    const int32_t copy = store_->acquire();
    store_->copy_block(tail, copy);
    store_->release(tail);
    tail = copy;
  }
  for (int64_t block = blocks_for(held); block < blocks_for(held + count); ++block)
    table[block] = store_->acquire();
  lengths_[static_cast<size_t>(sequence)] = held + count;
  return {};
}

void BlockTables::truncate(int32_t sequence, int64_t length) {
  RAFTER_CHECK(exists(sequence), "sequence {}", sequence);
  const int64_t held = lengths_[static_cast<size_t>(sequence)];
  RAFTER_CHECK(length >= 0 && length <= held, "truncate to {} of {}", length, held);
  for (int64_t block = blocks_for(length); block < blocks_for(held); ++block)
    store_->release(row(sequence)[block]);
  lengths_[static_cast<size_t>(sequence)] = length;
}

base::Result<int32_t> BlockTables::fork(int32_t sequence, int64_t length) {
  RAFTER_CHECK(exists(sequence) && length >= 0 && length <= this->length(sequence), "fork {} at {}", sequence,
               length);
  RAFTER_ASSIGN(const int32_t copy, create_sequence());
  for (int64_t block = 0; block < blocks_for(length); ++block) {
    store_->add_reference(row(sequence)[block]);
    row(copy)[block] = row(sequence)[block];
  }
  lengths_[static_cast<size_t>(copy)] = length;
  return copy;
}

}  // namespace rafter::cache

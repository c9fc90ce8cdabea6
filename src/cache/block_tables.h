// Block tables: which blocks hold a sequence's positions. Growth, rollback, forks and sharing are edits of
// these tables; no key or value moves, but for a shared last block that one of its owners is about to write
// (copied first).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/block_store.h"

namespace rafter::cache {

class BlockTables {
 public:
  // `max_positions` per sequence. Errors: out_of_memory.
  static base::Result<BlockTables> create(BlockStore* store, int32_t max_sequences, int64_t max_positions);

  base::Result<int32_t> create_sequence();  // error: every sequence is taken
  void release(int32_t sequence);
  bool exists(int32_t sequence) const;
  int64_t length(int32_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

  // Makes room for positions length … length + count − 1 and counts them as held. All or nothing.
  // Errors: out_of_memory (the store is full, or max_positions would be passed).
  base::Status extend(int32_t sequence, int64_t count);
  // Forgets positions ≥ length.
  void truncate(int32_t sequence, int64_t length);
  // A new sequence that holds the first `length` positions of another: whole blocks and the tail are shared
  // until either owner writes into the tail.
  base::Result<int32_t> fork(int32_t sequence, int64_t length);

  // New blocks that extend() would take (a copied shared tail included).
  int64_t blocks_needed(int32_t sequence, int64_t count) const;

  // [max_sequences, stride()] block ids, at one address for life.
  const int32_t* data() const { return reinterpret_cast<const int32_t*>(table_.data()); }
  int64_t stride() const { return stride_; }
  int64_t blocks_in_use() const { return store_->capacity() - store_->free_blocks(); }

 private:
  BlockTables() = default;
  int32_t* row(int32_t sequence) { return reinterpret_cast<int32_t*>(table_.data()) + sequence * stride_; }
  const int32_t* row(int32_t sequence) const { return data() + sequence * stride_; }
  bool tail_is_shared(int32_t sequence) const;

  BlockStore* store_ = nullptr;
  int64_t max_positions_ = 0;
  int64_t stride_ = 0;
  device::HostMemory table_;      // costs memory where sequences are long, not for the longest one possible
  std::vector<int64_t> lengths_;  // −1: the sequence does not exist
};

}  // namespace rafter::cache

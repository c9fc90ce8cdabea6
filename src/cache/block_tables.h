// Block tables: which blocks hold a sequence's positions, for the layers of one kind. Growth, rollback, forks
// and sharing are edits of these tables; no key or value moves, but for a shared last block that one of its
// owners is about to write (copied first).
//
// Sliding layers see a window only: extend() first gives back the blocks that the next row would not see.
// What the last step appended, and a window before it, is still held then, so any of the step's rows can be
// taken back; further back only snapshots lead, which keep the blocks of a window alive.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/block_store.h"

namespace rafter::cache {

class BlockTables {
 public:
  struct Shape {
    int32_t max_sequences = 0;
    int64_t max_positions = 0;    // per sequence
    int64_t window = 0;           // positions that a row sees, its own included; 0: all
    int32_t snapshot_blocks = 0;  // the most that snapshots may keep alive; sliding layers only
    int32_t* entries = nullptr;   // [max_sequences, blocks_for(max_positions)]; null: memory of its own
  };
  // Errors: out_of_memory.
  static base::Result<BlockTables> create(BlockStore* store, const Shape& shape);

  base::Result<int32_t> create_sequence();  // error: every sequence is taken
  void release(int32_t sequence);
  bool exists(int32_t sequence) const;
  int64_t length(int32_t sequence) const { return sequences_[static_cast<size_t>(sequence)].length; }

  // Makes room for positions length … length + count − 1 and counts them as held. All or nothing.
  // Errors: out_of_memory (the store is full, or max_positions would be passed).
  base::Status extend(int32_t sequence, int64_t count);
  // The longest prefix of at most `length` positions that truncate() and fork() can go back to.
  int64_t reentry_position(int32_t sequence, int64_t length) const;
  // Forgets positions ≥ length, which must be a re-entry position.
  void truncate(int32_t sequence, int64_t length);
  // A new sequence that holds the first `length` positions of another (a re-entry position): whole blocks and
  // the tail are shared until either owner writes into the tail.
  base::Result<int32_t> fork(int32_t sequence, int64_t length);

  // Keeps the sequence's length a re-entry position. Snapshots that were used least recently give way, to
  // this one as to growing sequences; false if the budget holds no window. Nothing to do without a window.
  bool take_snapshot(int32_t sequence);

  // For files: the blocks of a sequence, or of a snapshot of one of its prefixes.
  struct SavedSpan {
    int64_t length = 0;           // the blocks of positions first · 64 … length − 1
    int64_t first = 0;            // in blocks
    std::vector<int32_t> blocks;  // numbers in the store, or in a file
  };
  // What a sequence holds: its own span, then those of its snapshots, the longest first.
  std::vector<SavedSpan> saved_spans(int32_t sequence) const;
  // What is wrong with spans that came from a file of `count` blocks; "" if nothing.
  std::string fault_of(const std::vector<SavedSpan>& spans, int64_t count) const;
  // Makes them those of an empty sequence: block i of the file is at blocks + i · block_bytes. Snapshots for
  // which there is no room among the others are left out. All or nothing otherwise.
  // Errors: out_of_memory.
  base::Status restore(int32_t sequence, const std::vector<SavedSpan>& spans, const std::byte* blocks);

  // Free blocks that extend() would take (a copied shared tail included), less those that it gives back.
  int64_t blocks_needed(int32_t sequence, int64_t count) const;
  // Blocks that these sequences hold, each counted once.
  int64_t blocks_held(std::span<const int32_t> sequences) const;
  // A sequence of `positions`, the first `held` of them those of `sequence`; −1 and none for a new one.
  struct Growth {
    int32_t sequence = -1;
    int64_t held = 0;
    int64_t positions = 0;
  };
  // Blocks that all of these may hold, shared ones counted once, when they grow by `rows` at a time.
  int64_t blocks_when_grown(std::span<const Growth> sequences, int64_t rows) const;
  // Blocks that one sequence of `positions` may hold when it grows by `rows` at a time.
  static int64_t blocks_of_sequence(int64_t window, int64_t positions, int64_t rows);

  // [max_sequences, stride()] block ids, at one address for life.
  const int32_t* data() const { return entries_; }
  int64_t stride() const { return stride_; }
  int64_t blocks_in_use() const { return store_->capacity() - store_->free_blocks(); }

 private:
  // The blocks of positions first · 64 … length − 1.
  struct Span {
    int64_t length = -1;  // −1: the sequence does not exist
    int64_t first = 0;    // in blocks
  };
  struct Snapshot {
    Span span;
    std::vector<int32_t> blocks;
  };
  using SnapshotRef = std::shared_ptr<const Snapshot>;

  BlockTables() = default;
  int32_t* row(int32_t sequence) { return entries_ + sequence * stride_; }
  const int32_t* row(int32_t sequence) const { return entries_ + sequence * stride_; }
  Span& span(int32_t sequence) { return sequences_[static_cast<size_t>(sequence)]; }
  const Span& span(int32_t sequence) const { return sequences_[static_cast<size_t>(sequence)]; }
  std::vector<SnapshotRef>& snapshots(int32_t sequence) { return holders_[static_cast<size_t>(sequence)]; }
  bool tail_is_shared(int32_t sequence) const;
  int64_t first_needed(int64_t length) const;
  bool can_reenter(const Span& span, int64_t length) const;
  base::Error no_blocks(int64_t needed) const;
  SnapshotRef find_snapshot(int32_t sequence, int64_t length) const;
  void release_blocks(int32_t sequence, int64_t begin, int64_t end);
  void share_blocks(int32_t sequence, const int32_t* blocks, Span span);
  bool make_room(int64_t blocks);
  void drop_beyond(int32_t sequence, int64_t length);
  void drop(const SnapshotRef& snapshot);
  void touch(const SnapshotRef& snapshot);

  BlockStore* store_ = nullptr;
  Shape shape_;
  int64_t stride_ = 0;
  device::HostMemory memory_;  // costs memory where sequences are long, not for the longest one possible
  int32_t* entries_ = nullptr;
  std::vector<Span> sequences_;
  std::vector<std::vector<SnapshotRef>> holders_;  // by sequence: the snapshots of its prefixes
  std::list<SnapshotRef> recent_;                  // most recently used first
  int64_t snapshot_blocks_ = 0;                    // of all snapshots together
};

}  // namespace rafter::cache

// The recurrent states of a model's delta-net layers: one slot per sequence, and snapshots.
//
// A step is begin() … kernels … commit(): begin() says what the kernels need to know of the sequence's rows,
// commit() how many of them are kept. The last kReplayRows rows of a step stay pending
// (kernels/op/recurrent.h), so fewer may be kept: the others are forgotten exactly. Further back only
// snapshots lead.
//
//   RAFTER_ASSIGN(auto store, RecurrentStore::create(shapes, max_sequences, snapshot_bytes));
//   store.create(sequence);
//   const kernels::RecurrentRun run = store.begin(sequence, first, count);
//   store.commit(sequence, accepted);
#pragma once

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/sequence_file.h"
#include "device/host_memory.h"
#include "kernels/op/recurrent.h"

namespace rafter::cache {

class RecurrentStore {
 public:
  RecurrentStore() =
      default;  // of a model without recurrent layers: holds nothing, every length is re-enterable

  // `snapshot_bytes`: the most that snapshots may take together. Errors: out_of_memory.
  static base::Result<RecurrentStore> create(std::vector<kernels::RecurrentShape> layers, int32_t sequences,
                                             int64_t snapshot_bytes);

  bool empty() const { return layers_.empty(); }
  // The view that kernels take; addresses stay valid for the store's life.
  kernels::RecurrentLayer layer(int32_t index) const;
  // Bytes of one sequence's state, journals included.
  int64_t slot_bytes() const { return slot_stride_ * static_cast<int64_t>(sizeof(float)); }

  void create_sequence(int32_t sequence);  // of length 0
  void release(int32_t sequence);          // its snapshots go with it, but those that forks hold too
  int64_t length(int32_t sequence) const { return states_[static_cast<size_t>(sequence)].length; }

  // The rows of a step: `count` of them from the sequence's length on, listed from `first`. They count as
  // accepted until commit() says otherwise.
  kernels::RecurrentRun begin(int32_t sequence, int32_t first, int32_t count);
  // Keeps `accepted` of the last step's rows; all but kReplayRows are kept in any case.
  void commit(int32_t sequence, int64_t accepted);

  // The longest prefix of at most `length` positions that truncate() and fork() can go back to.
  int64_t reentry_position(int32_t sequence, int64_t length) const;
  // `length` must be a re-entry position.
  void truncate(int32_t sequence, int64_t length);
  void fork(int32_t from, int32_t to, int64_t length);

  // Retains the state at the sequence's length, so that it stays a re-entry position. Snapshots that were
  // used least recently give way; false if the budget holds none.
  bool take_snapshot(int32_t sequence);
  // Of the snapshots that these sequences hold, each counted once.
  int64_t snapshot_bytes_held(std::span<const int32_t> sequences) const;
  int64_t snapshot_bytes_in_use() const { return snapshot_bytes_; }
  int64_t snapshot_count() const { return static_cast<int64_t>(recent_.size()); }

  // Where a state stands: rows [base, length) are pending, in this journal.
  struct State {
    int64_t base = 0, length = 0;
    int32_t journal = 0;
  };
  // What a file holds of one sequence, checked against these layers: its state, then its snapshots, the
  // longest first. Points into the file.
  struct Saved {
    State state;
    const std::byte* values = nullptr;
  };
  // Appends the state of a sequence of at least one position, and its snapshots; nothing without layers.
  void save(int32_t sequence, SequenceWriter& out) const;
  // Error (invalid_data): what the file holds cannot be of these layers, or of `length` positions.
  base::Result<std::vector<Saved>> read(const SequenceFile& file, SequenceBody& body, int64_t length) const;
  // A new sequence (as create_sequence()) that holds it; snapshots for which there is no room are left out.
  void restore(int32_t sequence, const std::vector<Saved>& saved);

 private:
  struct Snapshot {
    State state;
    std::vector<float> values;  // pack()'s order
    int64_t bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
  };
  using SnapshotRef = std::shared_ptr<const Snapshot>;

  template <typename Visit>
  void for_each_part(int32_t sequence, const State& state, const Visit& visit) const;
  void restore(int32_t sequence, const Snapshot& snapshot);
  SnapshotRef snapshot_of(int32_t sequence) const;
  int64_t floats_of(const State& state) const;
  SnapshotRef find_snapshot(int32_t sequence, int64_t length) const;
  bool make_room(int64_t bytes);
  void drop_unless_held(const SnapshotRef& snapshot);
  void drop(const SnapshotRef& snapshot);
  void touch(const SnapshotRef& snapshot);

  std::vector<kernels::RecurrentShape> layers_;
  std::vector<int64_t> layer_offsets_;  // floats
  int64_t slot_stride_ = 0;             // floats
  device::HostMemory memory_;
  std::vector<State> states_;                      // by sequence
  std::vector<std::vector<SnapshotRef>> holders_;  // by sequence: the snapshots of its prefixes
  std::list<SnapshotRef> recent_;                  // most recently used first
  int64_t snapshot_limit_ = 0, snapshot_bytes_ = 0;
};

}  // namespace rafter::cache

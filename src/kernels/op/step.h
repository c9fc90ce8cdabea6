// What every kernel is given besides its own arguments: the rows of this step, and the worker that runs it.
//
// Everything that changes from token to token is in StepInput, at one fixed address in the executor's memory;
// a bound step only points at it. Kernels read the live row counts here and never see padded rows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rafter::kernels {

struct RecurrentInput;  // kernels/op/recurrent.h

// The input block. Arrays have the bucket's capacity; only the first `rows` (or `wanted_rows`) entries are
// live. A row is one token: its sequence, its position, the positions it may see. Rows of one sequence may be
// any number and stand anywhere in the list; a row's own key and value are appended before any row attends.
struct StepInput {
  int32_t rows = 0;                       // B
  int32_t wanted_rows = 0;                // rows whose logits are wanted
  const int32_t* tokens = nullptr;        // [B] token ids, each in [0, V)
  const int32_t* positions = nullptr;     // [B] absolute, from 0
  const int32_t* sequences = nullptr;     // [B] index of the row's block table
  const int32_t* visible_from = nullptr;  // [B] the row sees positions visible_from ≤ p < visible_to …
  const int32_t* visible_to = nullptr;    // [B] … of its own sequence (a layer's window narrows it further)
  const int32_t* wanted = nullptr;        // [wanted_rows] indices into the rows, ascending
  // Cache block ids, a table per sequence for every kind of layers (KvLayer::kind).
  const int32_t* block_tables = nullptr;  // [kinds, sequences, block_table_stride]
  int64_t block_table_stride = 0;
  int64_t block_table_kind_stride = 0;  // from one kind's tables to the next's; any if there is one kind
  const RecurrentInput* recurrent = nullptr;  // the rows by sequence; null: the plan has no recurrent layers
};

// Bytes and operations of one step, for the profiler, the printer and the predictor.
struct Cost {
  int64_t weight_bytes = 0;      // stored weight bytes read, once however many rows
  int64_t cache_bytes = 0;       // KV bytes read and written
  int64_t activation_bytes = 0;  // activations read and written
  int64_t operations = 0;        // floating-point operations; a multiply-add counts two
};

// A barrier and claim counters of the team that runs a plan. One claim phase is one shared cursor over a
// range of work items; a kernel may use up to kPhases of them. Which worker takes which chunk never changes a
// result.
class Worker {
 public:
  static constexpr int kPhases = 2;
  struct alignas(64) Cursor {
    std::atomic<int64_t> next{0};
  };

  Worker(int index, int count) : index_(index), count_(count) {}
  virtual ~Worker() = default;

  int index() const { return index_; }
  int count() const { return count_; }

  // Waits until every worker of the team is here.
  virtual void barrier() = 0;

  // Takes the next chunk of [0, total) for this step; false when nothing is left. Always inline: a copy of
  // its own, compiled for one instruction set, could serve the files of another.
  [[gnu::always_inline]] bool claim(int phase, int64_t total, int64_t chunk, int64_t* begin, int64_t* end) {
    const int64_t start = cursors_[phase].next.fetch_add(chunk, std::memory_order_relaxed);
    if (start >= total) return false;
    *begin = start;
    *end = start + chunk < total ? start + chunk : total;
    return true;
  }

  // Where the next claim will begin if no other worker claims before.
  int64_t unclaimed(int phase) const { return cursors_[phase].next.load(std::memory_order_relaxed); }

  std::span<std::byte> scratch() const { return scratch_; }  // this worker's own, 64-byte aligned
  std::span<std::byte> shared() const { return shared_; }    // the team's, 64-byte aligned

  // Set by the executor: before a run (memory) and before each step (cursors, already zero).
  void set_memory(std::span<std::byte> scratch, std::span<std::byte> shared) {
    scratch_ = scratch, shared_ = shared;
  }
  void set_cursors(Cursor* cursors) { cursors_ = cursors; }

 private:
  int index_, count_;
  Cursor* cursors_ = nullptr;
  std::span<std::byte> scratch_, shared_;
};

}  // namespace rafter::kernels

// Recurrent state: what gated delta-net layers keep of a sequence instead of keys and values.
//
// A layer's state is the matrix S of each value head and the last inputs of its convolution. S is stored as
// it stands some rows before the sequence's end; those rows are *pending*: a journal keeps what applying them
// takes (key, delta and decay of each). A step first applies the pending rows that were accepted, then its
// own, of which the last kReplayRows become pending in turn. So S is read and written once per step, and rows
// that are rejected afterwards were never applied.
#pragma once

#include "kernels/op/step.h"

namespace rafter::kernels {

inline constexpr int32_t kReplayRows = 16;  // most rows that stay pending after a step
inline constexpr int32_t kStateTile = 16;   // value dims that are stored side by side

// The rows of one sequence in a step.
struct RecurrentRun {
  int32_t slot = 0;      // of the sequence's state
  int32_t position = 0;  // of the first row; 0: the state starts from zero, whatever is stored
  int32_t first = 0;     // the rows are RecurrentInput::rows[first … first + count), ascending in position
  int32_t count = 0;
  int32_t pending = 0;  // accepted rows of the step before: positions position − pending … position − 1
  int32_t journal = 0;  // 0 or 1: the journal that holds them; this step's rows go to the other
};

// Every row of the step, by sequence.
struct RecurrentInput {
  int32_t run_count = 0;
  const RecurrentRun* runs = nullptr;  // [run_count]
  const int32_t* rows = nullptr;       // [B] indices of the step's rows
};

struct RecurrentShape {
  int32_t key_heads = 0;    // K
  int32_t value_heads = 0;  // M, a multiple of K
  int32_t key_dim = 0;      // DK
  int32_t value_dim = 0;    // DV
  int32_t taps = 0;         // positions that the convolution sees, its own included
  // Which key head value head m reads: m / (M / K), or, where tiled, m mod K.
  bool tiled_heads = false;

  int32_t key_head(int32_t m) const { return tiled_heads ? m % key_heads : m / (value_heads / key_heads); }
  // The first value head that reads its key head: it keeps the key's journal.
  bool is_first_reader(int32_t m) const {
    return tiled_heads ? m < key_heads : m % (value_heads / key_heads) == 0;
  }
  int64_t key_width() const { return int64_t{key_heads} * key_dim; }
  int64_t value_width() const { return int64_t{value_heads} * value_dim; }
  int64_t channels() const { return 2 * key_width() + value_width(); }  // of the convolution: q | k | v
  int64_t tiles() const { return (value_dim + kStateTile - 1) / kStateTile; }  // per value head
  int64_t tile_floats() const { return int64_t{key_dim} * kStateTile; }
  int64_t convolution_rows() const { return taps - 1 + kReplayRows; }
  // Floats of a slot's parts: S [M][tiles][DK][16]; a ring of convolution inputs, position p at
  // p mod convolution_rows(); two journals of keys [K · DK], deltas [M][tiles][16] and decays [M] per row.
  int64_t state_floats() const { return value_heads * tiles() * tile_floats(); }
  int64_t ring_floats() const { return convolution_rows() * channels(); }
  int64_t delta_row() const { return value_heads * tiles() * kStateTile; }
  int64_t journal_floats() const { return kReplayRows * (key_width() + delta_row() + value_heads); }
  int64_t slot_floats() const {
    return (state_floats() + ring_floats() + 2 * journal_floats() + kStateTile - 1) / kStateTile * kStateTile;
  }
};

// One layer's state of every slot. A null base: no state is kept, every run starts from zero.
struct RecurrentLayer {
  RecurrentShape shape;
  float* base = nullptr;    // of slot 0
  int64_t slot_stride = 0;  // floats

  float* state(int32_t slot) const { return base + slot * slot_stride; }
  float* ring_row(int32_t slot, int64_t position) const {
    return state(slot) + shape.state_floats() + position % shape.convolution_rows() * shape.channels();
  }
  float* journal_keys(int32_t slot, int32_t journal, int32_t row) const {
    return journal_base(slot, journal) + row * shape.key_width();
  }
  float* journal_deltas(int32_t slot, int32_t journal, int32_t row) const {
    return journal_base(slot, journal) + kReplayRows * shape.key_width() + row * shape.delta_row();
  }
  float* journal_decays(int32_t slot, int32_t journal, int32_t row) const {
    return journal_base(slot, journal) + kReplayRows * (shape.key_width() + shape.delta_row()) +
           row * shape.value_heads;
  }

 private:
  float* journal_base(int32_t slot, int32_t journal) const {
    return state(slot) + shape.state_floats() + shape.ring_floats() + journal * shape.journal_floats();
  }
};

}  // namespace rafter::kernels

#include "cache/recurrent_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace rafter::cache {

using kernels::kReplayRows;
using kernels::RecurrentLayer;
using kernels::RecurrentRun;
using kernels::RecurrentShape;

base::Result<RecurrentStore> RecurrentStore::create(std::vector<RecurrentShape> layers, int32_t sequences,
                                                    int64_t snapshot_bytes) {
  RecurrentStore store;
  for (const RecurrentShape& layer : layers) {
    store.layer_offsets_.push_back(store.slot_stride_);
    store.slot_stride_ += layer.slot_floats();
  }
  store.layers_ = std::move(layers);
  store.snapshot_limit_ = snapshot_bytes;
  store.states_.resize(static_cast<size_t>(sequences));
  store.holders_.resize(static_cast<size_t>(sequences));
  if (!store.layers_.empty()) {
    RAFTER_ASSIGN(store.memory_, device::HostMemory::reserve(static_cast<size_t>(store.slot_bytes()) *
                                                             static_cast<size_t>(sequences)));
  }
  return store;
}

RecurrentLayer RecurrentStore::layer(int32_t index) const {
  RAFTER_CHECK(index >= 0 && static_cast<size_t>(index) < layers_.size(), "state layer {}", index);
  float* base = reinterpret_cast<float*>(memory_.data()) + layer_offsets_[static_cast<size_t>(index)];
  return {layers_[static_cast<size_t>(index)], base, slot_stride_};
}

void RecurrentStore::create_sequence(int32_t sequence) {
  if (empty()) return;
  states_[static_cast<size_t>(sequence)] = {};
}

void RecurrentStore::release(int32_t sequence) {
  if (empty()) return;
  std::vector<SnapshotRef> held = std::move(holders_[static_cast<size_t>(sequence)]);
  holders_[static_cast<size_t>(sequence)].clear();
  for (const SnapshotRef& snapshot : held) drop_unless_held(snapshot);
  states_[static_cast<size_t>(sequence)] = {};
}

RecurrentRun RecurrentStore::begin(int32_t sequence, int32_t first, int32_t count) {
  State& state = states_[static_cast<size_t>(sequence)];
  RecurrentRun run;
  run.slot = sequence;
  run.position = static_cast<int32_t>(state.length);
  run.first = first;
  run.count = count;
  run.pending = static_cast<int32_t>(state.length - state.base);
  run.journal = state.journal;
  // What the kernels leave: the state as it was before the rows that stay pending.
  state.base = state.length + std::max(0, count - kReplayRows);
  state.length += count;
  state.journal = 1 - state.journal;
  return run;
}

void RecurrentStore::commit(int32_t sequence, int64_t accepted) {
  State& state = states_[static_cast<size_t>(sequence)];
  const int64_t pending = state.length - state.base;
  RAFTER_CHECK(accepted >= 0 && accepted <= pending, "commit of {} rows, {} are pending", accepted, pending);
  state.length = state.base + accepted;
}

int64_t RecurrentStore::reentry_position(int32_t sequence, int64_t length) const {
  if (empty()) return length;
  const State& state = states_[static_cast<size_t>(sequence)];
  if (length >= state.base) return std::min(length, state.length);
  const SnapshotRef snapshot = find_snapshot(sequence, length);
  return snapshot != nullptr ? std::min(length, snapshot->state.length) : 0;
}

// The snapshot from which the longest prefix of at most `length` positions can be had.
RecurrentStore::SnapshotRef RecurrentStore::find_snapshot(int32_t sequence, int64_t length) const {
  SnapshotRef best;
  for (const SnapshotRef& snapshot : holders_[static_cast<size_t>(sequence)]) {
    if (snapshot->state.base > length) continue;
    if (best == nullptr || std::min(snapshot->state.length, length) > std::min(best->state.length, length))
      best = snapshot;
  }
  return best;
}

void RecurrentStore::truncate(int32_t sequence, int64_t length) {
  if (empty()) return;
  RAFTER_CHECK(reentry_position(sequence, length) == length,
               "position {} of sequence {} cannot be re-entered", length, sequence);
  State& state = states_[static_cast<size_t>(sequence)];
  if (length >= state.base) {
    commit(sequence, length - state.base);
  } else if (length == 0) {
    state = {};
  } else {
    const SnapshotRef snapshot = find_snapshot(sequence, length);
    restore(sequence, *snapshot);
    state.length = length;
    touch(snapshot);
  }
  // Snapshots of positions that are no longer this sequence's.
  std::vector<SnapshotRef>& held = holders_[static_cast<size_t>(sequence)];
  std::vector<SnapshotRef> kept, gone;
  for (SnapshotRef& snapshot : held) {
    (snapshot->state.length <= length ? kept : gone).push_back(std::move(snapshot));
  }
  held = std::move(kept);
  for (const SnapshotRef& snapshot : gone) drop_unless_held(snapshot);
}

// Calls visit(address, floats) for what of a slot means anything in this state: S, the convolution's last
// inputs, the pending rows.
template <typename Visit>
void RecurrentStore::for_each_part(int32_t sequence, const State& state, const Visit& visit) const {
  const auto pending = static_cast<int32_t>(state.length - state.base);
  for (int32_t index = 0; static_cast<size_t>(index) < layers_.size(); ++index) {
    const RecurrentLayer view = layer(index);
    const RecurrentShape& shape = view.shape;
    visit(view.state(sequence), shape.state_floats());
    const int64_t oldest = std::max<int64_t>(0, state.base - (shape.taps - 1));
    for (int64_t position = oldest; position < state.length; ++position)
      visit(view.ring_row(sequence, position), shape.channels());
    for (int32_t row = 0; row < pending; ++row) {
      visit(view.journal_keys(sequence, state.journal, row), shape.key_width());
      visit(view.journal_deltas(sequence, state.journal, row), shape.delta_row());
      visit(view.journal_decays(sequence, state.journal, row), shape.value_heads);
    }
  }
}

void RecurrentStore::restore(int32_t sequence, const Snapshot& snapshot) {
  const float* from = snapshot.values.data();
  for_each_part(sequence, snapshot.state, [&](float* to, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    from += count;
  });
  states_[static_cast<size_t>(sequence)] = snapshot.state;
}

void RecurrentStore::fork(int32_t from, int32_t to, int64_t length) {
  if (empty()) return;
  RAFTER_CHECK(reentry_position(from, length) == length, "position {} of sequence {} cannot be re-entered",
               length, from);
  State state = states_[static_cast<size_t>(from)];
  State& copy = states_[static_cast<size_t>(to)];
  if (length == 0) {
    copy = {};
  } else if (length >= state.base) {
    state.length = length;
    const int64_t stride = slot_stride_ * (to - from);
    for_each_part(from, state, [&](float* part, int64_t count) {
      std::memcpy(part + stride, part, static_cast<size_t>(count) * sizeof(float));
    });
    copy = state;
  } else {
    const SnapshotRef snapshot = find_snapshot(from, length);
    restore(to, *snapshot);
    copy.length = length;
    touch(snapshot);
  }
  for (const SnapshotRef& snapshot : holders_[static_cast<size_t>(from)]) {
    if (snapshot->state.length <= length) holders_[static_cast<size_t>(to)].push_back(snapshot);
  }
}

bool RecurrentStore::take_snapshot(int32_t sequence) {
  if (empty()) return true;
  const State& state = states_[static_cast<size_t>(sequence)];
  std::vector<SnapshotRef>& held = holders_[static_cast<size_t>(sequence)];
  for (const SnapshotRef& snapshot : held) {
    if (snapshot->state.length == state.length) return touch(snapshot), true;
  }
  if (!make_room(floats_of(state) * static_cast<int64_t>(sizeof(float)))) return false;
  SnapshotRef snapshot = snapshot_of(sequence);
  snapshot_bytes_ += snapshot->bytes();
  held.push_back(snapshot);
  recent_.push_front(std::move(snapshot));
  return true;
}

// The state as it is now.
RecurrentStore::SnapshotRef RecurrentStore::snapshot_of(int32_t sequence) const {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->state = states_[static_cast<size_t>(sequence)];
  snapshot->values.reserve(static_cast<size_t>(floats_of(snapshot->state)));
  for_each_part(sequence, snapshot->state, [&](const float* part, int64_t count) {
    snapshot->values.insert(snapshot->values.end(), part, part + count);
  });
  return snapshot;
}

int64_t RecurrentStore::floats_of(const State& state) const {
  int64_t floats = 0;
  for_each_part(0, state, [&](const float*, int64_t count) { floats += count; });
  return floats;
}

int64_t RecurrentStore::snapshot_bytes_held(std::span<const int32_t> sequences) const {
  std::vector<const Snapshot*> held;
  for (const int32_t sequence : sequences) {
    for (const SnapshotRef& snapshot : holders_[static_cast<size_t>(sequence)])
      held.push_back(snapshot.get());
  }
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  int64_t bytes = 0;
  for (const Snapshot* snapshot : held) bytes += snapshot->bytes();
  return bytes;
}

bool RecurrentStore::make_room(int64_t bytes) {
  if (bytes > snapshot_limit_) return false;
  while (snapshot_bytes_ + bytes > snapshot_limit_) {
    const SnapshotRef oldest = recent_.back();
    for (auto& held : holders_) std::erase(held, oldest);
    drop(oldest);
  }
  return true;
}

void RecurrentStore::drop_unless_held(const SnapshotRef& snapshot) {
  const bool is_held = std::any_of(holders_.begin(), holders_.end(), [&](const auto& held) {
    return std::find(held.begin(), held.end(), snapshot) != held.end();
  });
  if (!is_held) drop(snapshot);
}

void RecurrentStore::drop(const SnapshotRef& snapshot) {
  const auto found = std::find(recent_.begin(), recent_.end(), snapshot);
  if (found == recent_.end()) return;
  snapshot_bytes_ -= snapshot->bytes();
  recent_.erase(found);
}

void RecurrentStore::touch(const SnapshotRef& snapshot) {
  recent_.splice(recent_.begin(), recent_, std::find(recent_.begin(), recent_.end(), snapshot));
}

}  // namespace rafter::cache

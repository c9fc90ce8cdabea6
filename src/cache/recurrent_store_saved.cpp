// Recurrent states to and from files: layers, then each state's positions, journal and values.
#include <algorithm>
#include <cstring>

#include "cache/recurrent_store.h"

namespace rafter::cache {

using kernels::kReplayRows;
using kernels::RecurrentShape;

namespace {

// What a layer's floats mean.
std::vector<int64_t> numbers_of(const RecurrentShape& layer) {
  return {layer.key_heads, layer.value_heads, layer.key_dim,
          layer.value_dim, layer.taps,        layer.tiled_heads ? 1 : 0};
}

}  // namespace

void RecurrentStore::save(int32_t sequence, SequenceWriter& out) const {
  if (empty()) return;
  out.number(static_cast<int64_t>(layers_.size()));
  for (const RecurrentShape& layer : layers_) {
    for (const int64_t number : numbers_of(layer)) out.number(number);
  }
  std::vector<SnapshotRef> parts = holders_[static_cast<size_t>(sequence)];
  std::erase_if(parts, [](const SnapshotRef& part) { return part->state.length == 0; });  // needs no file
  std::sort(parts.begin(), parts.end(),
            [](const SnapshotRef& a, const SnapshotRef& b) { return a->state.length > b->state.length; });
  parts.insert(parts.begin(), snapshot_of(sequence));
  out.number(static_cast<int64_t>(parts.size()));
  for (const SnapshotRef& part : parts) {
    out.number(part->state.base);
    out.number(part->state.length);
    out.number(part->state.journal);
    out.append(std::as_bytes(std::span(part->values)));
  }
}

base::Result<std::vector<RecurrentStore::Saved>> RecurrentStore::read(const SequenceFile& file,
                                                                      SequenceBody& body,
                                                                      int64_t length) const {
  std::vector<Saved> parts;
  if (empty()) return parts;
  const auto count = static_cast<int64_t>(layers_.size());
  if (const int64_t stored = body.number(); stored != count)
    return file.invalid(fmt::format("the file has {} recurrent layers and the model {}", stored, count));
  for (const RecurrentShape& layer : layers_) {
    for (const int64_t number : numbers_of(layer)) {
      if (const int64_t stored = body.number(); stored != number)
        return file.invalid(fmt::format("recurrent layers with {} for {}", stored, number));
    }
  }
  parts.resize(static_cast<size_t>(body.count(3 * sizeof(int64_t))));
  int64_t longest = length;
  for (Saved& part : parts) {
    State& state = part.state;
    state.base = body.number();
    state.length = body.number();
    const int64_t journal = body.number();
    const bool is_own = &part == &parts.front();
    if (state.base < 0 || state.base > state.length || state.length - state.base > kReplayRows ||
        state.length < 1 || state.length > longest || (is_own && state.length != length) ||
        (journal != 0 && journal != 1))
      return file.invalid(fmt::format("a recurrent state of positions {} to {}", state.base, state.length));
    state.journal = static_cast<int32_t>(journal);
    longest = is_own ? length : state.length - 1;
    part.values = body.take(floats_of(state) * static_cast<int64_t>(sizeof(float)));
  }
  if (body.failed() || parts.empty()) return file.invalid("the file ends in the middle of recurrent states");
  return parts;
}

void RecurrentStore::restore(int32_t sequence, const std::vector<Saved>& saved) {
  if (empty()) return;
  const auto snapshot_from = [&](const Saved& part) {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->state = part.state;
    snapshot->values.resize(static_cast<size_t>(floats_of(part.state)));
    std::memcpy(snapshot->values.data(), part.values, static_cast<size_t>(snapshot->bytes()));
    return snapshot;
  };
  restore(sequence, *snapshot_from(saved.front()));
  const auto newest = recent_.begin();
  for (size_t i = 1; i < saved.size(); ++i) {
    const int64_t bytes = floats_of(saved[i].state) * static_cast<int64_t>(sizeof(float));
    if (snapshot_bytes_ + bytes > snapshot_limit_) continue;
    SnapshotRef snapshot = snapshot_from(saved[i]);
    snapshot_bytes_ += bytes;
    holders_[static_cast<size_t>(sequence)].push_back(snapshot);
    recent_.insert(newest, std::move(snapshot));
  }
}

}  // namespace rafter::cache

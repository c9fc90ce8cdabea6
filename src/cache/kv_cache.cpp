#include "cache/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::cache {
namespace {

constexpr int64_t kMostBlocks = int64_t{1} << 30;

// Windows that snapshots may keep alive, for each sequence that there may be.
constexpr int64_t kSnapshotsPerSequence = 4;

constexpr double kSlidingShare = 0.25;

}  // namespace

void KvCache::group(const std::vector<LayerShape>& layers) {
  for (const LayerShape& shape : layers) {
    auto kind = std::find_if(kinds_.begin(), kinds_.end(),
                             [&](const Kind& other) { return other.window == shape.window; });
    if (kind == kinds_.end()) {
      kinds_.emplace_back();
      kind = kinds_.end() - 1;
      kind->window = shape.window;
    }
    places_.push_back(
        {static_cast<int32_t>(kind - kinds_.begin()), static_cast<int32_t>(kind->layers.size())});
    kind->layers.push_back(shape);
  }
  for (Kind& kind : kinds_) kind.block_bytes = BlockStore::bytes_per_block(kind.layers, options_.type);
}

// Every kind gets the blocks that all sequences could hold, or, where they do not fit together, the same
// share of them. Windows are bounded while sequences may be as long as the model takes, so sliding kinds get
// what they want up to kSlidingShare of the bytes (else few sequences could run side by side), and never less
// than one sequence's windows.
base::Result<std::vector<int64_t>> KvCache::share_bytes() const {
  std::vector<int64_t> wanted, least;
  double all = 0, sliding = 0;
  for (const Kind& kind : kinds_) {
    const int64_t one =
        BlockTables::blocks_of_sequence(kind.window, options_.max_positions, options_.rows_per_step);
    const int64_t snapshots = kind.window == 0 ? 0 : kSnapshotsPerSequence * (blocks_for(kind.window) + 1);
    wanted.push_back((one + snapshots) * options_.max_sequences);
    least.push_back(kind.window == 0 ? 1 : one);
    const auto kind_bytes = static_cast<double>(wanted.back() * kind.block_bytes);
    all += kind_bytes;
    sliding += kind.window > 0 ? kind_bytes : 0;
  }
  const auto bytes = static_cast<double>(options_.bytes);
  const double fair_share = std::min(1.0, bytes / all);
  const double sliding_share =
      sliding == all ? fair_share : std::max(fair_share, std::min(1.0, kSlidingShare * bytes / sliding));
  std::vector<int64_t> blocks(kinds_.size());
  int64_t left = options_.bytes;
  for (const bool is_sliding : {true, false}) {  // what must be there first; the rest takes what is left
    for (size_t k = 0; k < kinds_.size(); ++k) {
      if ((kinds_[k].window > 0) != is_sliding) continue;
      const auto fair = static_cast<int64_t>(static_cast<double>(wanted[k]) * sliding_share);
      blocks[k] = is_sliding ? std::max(fair, least[k]) : left / kinds_[k].block_bytes;
      blocks[k] = std::min({blocks[k], wanted[k], kMostBlocks});
      left -= blocks[k] * kinds_[k].block_bytes;
      if (left >= 0 && blocks[k] >= least[k]) continue;
      return base::Error{
          base::ErrorCode::out_of_memory,
          fmt::format("{} cache block(s) of {} positions take {} bytes and the cache may take {}", least[k],
                      kernels::kBlockPositions, least[k] * kinds_[k].block_bytes, options_.bytes),
          "cache", "free some memory"};
    }
  }
  return blocks;
}

base::Result<KvCache> KvCache::create(const std::vector<LayerShape>& layers, const KvCacheOptions& options) {
  RAFTER_CHECK(!layers.empty(), "a cache without layers");
  KvCache cache;
  cache.options_ = options;
  cache.group(layers);
  RAFTER_ASSIGN(const std::vector<int64_t> blocks, cache.share_bytes());
  const auto entries = static_cast<size_t>(cache.kind_stride()) * cache.kinds_.size();
  RAFTER_ASSIGN(cache.entries_, device::HostMemory::reserve(entries * sizeof(int32_t)));
  auto* table = reinterpret_cast<int32_t*>(cache.entries_.data());
  for (size_t k = 0; k < cache.kinds_.size(); ++k, table += cache.kind_stride()) {
    Kind& kind = cache.kinds_[k];
    RAFTER_ASSIGN(BlockStore store,
                  BlockStore::create(kind.layers, options.type, static_cast<int32_t>(blocks[k])));
    kind.store = std::make_unique<BlockStore>(std::move(store));
    // Half of the store at most: sequences that grow take it back.
    const auto snapshots = static_cast<int32_t>(kind.window == 0 ? 0 : blocks[k] / 2);
    RAFTER_ASSIGN(BlockTables tables,
                  BlockTables::create(kind.store.get(), {options.max_sequences, options.max_positions,
                                                         kind.window, snapshots, table}));
    kind.tables = std::make_unique<BlockTables>(std::move(tables));
  }
  return cache;
}

kernels::KvLayer KvCache::layer(int32_t index) const {
  const Place& place = places_[static_cast<size_t>(index)];
  kernels::KvLayer view = kinds_[static_cast<size_t>(place.kind)].store->layer(place.index);
  view.kind = place.kind;
  return view;
}

base::Result<int32_t> KvCache::create_sequence() {
  RAFTER_ASSIGN(const int32_t sequence, kinds_[0].tables->create_sequence());
  for (size_t k = 1; k < kinds_.size(); ++k) {
    const int32_t other = kinds_[k].tables->create_sequence().value();  // the lowest free one in each
    RAFTER_CHECK(other == sequence, "sequence {} of kind {} beside {}", other, k, sequence);
  }
  return sequence;
}

void KvCache::release(int32_t sequence) {
  for (Kind& kind : kinds_) kind.tables->release(sequence);
}

base::Status KvCache::extend(int32_t sequence, int64_t count) {
  const int64_t before = length(sequence);
  for (size_t k = 0; k < kinds_.size(); ++k) {
    base::Status status = kinds_[k].tables->extend(sequence, count);
    if (status.ok()) continue;
    for (size_t done = 0; done < k; ++done) kinds_[done].tables->truncate(sequence, before);
    return status;
  }
  return {};
}

int64_t KvCache::reentry_position(int32_t sequence, int64_t length) const {
  for (bool agreed = false; !agreed;) {
    agreed = true;
    for (const Kind& kind : kinds_) {
      const int64_t reached = kind.tables->reentry_position(sequence, length);
      agreed = agreed && reached == length;
      length = reached;
    }
  }
  return length;
}

void KvCache::truncate(int32_t sequence, int64_t length) {
  for (Kind& kind : kinds_) kind.tables->truncate(sequence, length);
}

base::Result<int32_t> KvCache::fork(int32_t sequence, int64_t length) {
  RAFTER_ASSIGN(const int32_t copy, kinds_[0].tables->fork(sequence, length));
  for (size_t k = 1; k < kinds_.size(); ++k) {
    const int32_t other = kinds_[k].tables->fork(sequence, length).value();
    RAFTER_CHECK(other == copy, "sequence {} of kind {} beside {}", other, k, copy);
  }
  return copy;
}

bool KvCache::take_snapshot(int32_t sequence) {
  return std::all_of(kinds_.begin(), kinds_.end(),
                     [&](const Kind& kind) { return kind.tables->take_snapshot(sequence); });
}

bool KvCache::has_room(std::span<const std::pair<int32_t, int64_t>> growth) const {
  return std::all_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    int64_t needed = 0;
    for (const auto& [sequence, count] : growth) needed += kind.tables->blocks_needed(sequence, count);
    return needed <= kind.store->free_blocks();
  });
}

bool KvCache::can_hold(std::span<const Growth> sequences) const {
  return std::all_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.tables->blocks_when_grown(sequences, options_.rows_per_step) <= kind.store->capacity();
  });
}

int64_t KvCache::bytes_held(std::span<const int32_t> sequences) const {
  int64_t total = 0;
  for (const Kind& kind : kinds_) total += kind.tables->blocks_held(sequences) * kind.block_bytes;
  return total;
}

bool KvCache::has_windows() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.window > 0; });
}

bool KvCache::fits(int64_t positions) const {
  return std::all_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return BlockTables::blocks_of_sequence(kind.window, positions, options_.rows_per_step) <=
           kind.store->capacity();
  });
}

int64_t KvCache::bytes_of_sequence(int64_t positions) const {
  int64_t total = 0;
  for (const Kind& kind : kinds_) {
    total +=
        BlockTables::blocks_of_sequence(kind.window, positions, options_.rows_per_step) * kind.block_bytes;
  }
  return total;
}

int64_t KvCache::bytes_in_use() const {
  int64_t total = 0;
  for (const Kind& kind : kinds_) total += kind.tables->blocks_in_use() * kind.block_bytes;
  return total;
}

int64_t KvCache::bytes() const {
  int64_t total = 0;
  for (const Kind& kind : kinds_) total += kind.store->capacity() * kind.block_bytes;
  return total;
}

}  // namespace rafter::cache

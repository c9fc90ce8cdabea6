// The keys and values of a model: its layers by kind (those that see every position, those of each window),
// every kind with a block store and block tables of its own, and sequences that exist in all of them.
//
//   RAFTER_ASSIGN(auto cache, KvCache::create(layers, options));
//   RAFTER_ASSIGN(const int32_t sequence, cache.create_sequence());
//   RAFTER_TRY(cache.extend(sequence, rows));
//   kernels::KvLayer view = cache.layer(3);   // for the kernels, with cache.tables() in their input
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cache/block_tables.h"
#include "cache/sequence_file.h"

namespace rafter::cache {

struct KvCacheOptions {
  tensor::DType type = tensor::DType::bf16;
  int32_t max_sequences = 1;
  int64_t max_positions = 0;  // per sequence
  int64_t rows_per_step = 1;  // by which a sequence grows at most: sliding layers hold that beside a window
  int64_t bytes = 0;          // cap of all stores together
};

class KvCache {
 public:
  KvCache() = default;
  // Errors: out_of_memory (also when `bytes` does not hold one sequence's windows and one block of the rest).
  static base::Result<KvCache> create(const std::vector<LayerShape>& layers, const KvCacheOptions& options);

  // The view that kernels take; addresses stay valid for the cache's life.
  kernels::KvLayer layer(int32_t index) const;
  // Block ids [kinds, max_sequences, stride], at one address for life.
  const int32_t* tables() const { return reinterpret_cast<const int32_t*>(entries_.data()); }
  int64_t stride() const { return blocks_for(options_.max_positions); }
  int64_t kind_stride() const { return options_.max_sequences * stride(); }

  // As BlockTables, for all kinds together.
  base::Result<int32_t> create_sequence();
  void release(int32_t sequence);
  bool exists(int32_t sequence) const { return kinds_[0].tables->exists(sequence); }
  int64_t length(int32_t sequence) const { return kinds_[0].tables->length(sequence); }
  base::Status extend(int32_t sequence, int64_t count);
  int64_t reentry_position(int32_t sequence, int64_t length) const;
  void truncate(int32_t sequence, int64_t length);
  base::Result<int32_t> fork(int32_t sequence, int64_t length);
  bool take_snapshot(int32_t sequence);

  // What a file holds of one sequence, checked against this cache; points into the file.
  struct Saved {
    struct Kind {
      std::vector<BlockTables::SavedSpan> spans;
      const std::byte* blocks = nullptr;
    };
    std::vector<Kind> kinds;
    int64_t length = 0;
  };
  // Appends what a sequence of at least one position holds, its snapshots included. On the host only.
  void save(int32_t sequence, SequenceWriter& out) const;
  // Error (invalid_data): what the file holds cannot be of these layers.
  base::Result<Saved> read(const SequenceFile& file, SequenceBody& body) const;
  // A new sequence that holds it; snapshots for which there is no room are left out. All or nothing
  // otherwise. Errors: out_of_memory.
  base::Result<int32_t> restore(const Saved& saved);

  // Whether extend() finds the blocks for all of these (sequence, count) without a snapshot giving way.
  bool has_room(std::span<const std::pair<int32_t, int64_t>> growth) const;
  // A sequence of `positions`, the first `held` of them those of `sequence`; −1 and none for a new one.
  using Growth = BlockTables::Growth;
  // Whether these fit together once every other sequence and all snapshots were gone.
  bool can_hold(std::span<const Growth> sequences) const;
  // Bytes of the blocks that these sequences hold, each counted once.
  int64_t bytes_held(std::span<const int32_t> sequences) const;
  bool has_windows() const;

  // Whether a sequence of `positions` fits when no other is there.
  bool fits(int64_t positions) const;
  int64_t bytes_of_sequence(int64_t positions) const;  // that one may hold
  int64_t bytes_in_use() const;
  int64_t bytes() const;  // of all stores

  bool is_on_host() const { return kinds_[0].store->is_on_host(); }
  size_t kinds() const { return kinds_.size(); }
  const BlockStore& store(size_t kind) const { return *kinds_[kind].store; }
  BlockStore& store(size_t kind) { return *kinds_[kind].store; }

 private:
  struct Kind {
    int64_t window = 0;
    int64_t block_bytes = 0;
    std::vector<LayerShape> layers;
    std::unique_ptr<BlockStore> store;
    std::unique_ptr<BlockTables> tables;
  };
  // Where a layer of the model is.
  struct Place {
    int32_t kind = 0;
    int32_t index = 0;  // among the layers of its kind
  };

  void group(const std::vector<LayerShape>& layers);
  base::Result<std::vector<int64_t>> share_bytes() const;  // blocks of each kind

  KvCacheOptions options_;
  std::vector<Kind> kinds_;
  std::vector<Place> places_;  // by layer of the model
  device::HostMemory entries_;
};

}  // namespace rafter::cache

// The two look-ups of a BPE model, as open-addressed tables: bytes of a piece → id, pair of ids → merge. Both
// hash with a seed drawn once per process, so that no file can be made to collide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rafter::text {

uint64_t hash_bytes(std::string_view bytes);

// The bytes of every id, in one block.
class TokenBytes {
 public:
  void append(std::string_view bytes) {
    block_.append(bytes);
    ends_.push_back(static_cast<uint32_t>(block_.size()));
  }
  std::string_view operator[](int32_t id) const {
    const auto i = static_cast<size_t>(id);
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(block_).substr(begin, ends_[i] - begin);
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  size_t total_bytes() const { return block_.size(); }

 private:
  std::string block_;
  std::vector<uint32_t> ends_;
};

// bytes → id, over the entries of a TokenBytes.
class PieceTable {
 public:
  void reserve(size_t count);

  // The id already there for these bytes, or -1 after adding `id`. Precondition: within what was reserved.
  int32_t insert(const TokenBytes& bytes, int32_t id);
  int32_t find(const TokenBytes& bytes, std::string_view wanted) const;  // -1: none

 private:
  struct Slot {
    uint32_t tag = 0;  // more bits of the hash: most mismatches end here
    int32_t id = -1;
  };
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

struct Merge {
  uint32_t rank;   // kNoRank: no such merge
  int32_t merged;  // the id of the concatenation
};
inline constexpr uint32_t kNoRank = UINT32_MAX;

// (left id, right id) → merge.
class MergeTable {
 public:
  void reserve(size_t count);

  // Adds a merge; where the pair is already there, replaces it or keeps it. Precondition: within what was
  // reserved.
  void insert(int32_t left, int32_t right, Merge merge, bool replace);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {kNoRank, -1};
    }
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{kNoRank, -1};
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no pair of ids

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    uint64_t hash = (key ^ seed_) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * multiplier_;
    return static_cast<size_t>(hash >> 32) & mask_;
  }

  std::vector<Slot> slots_{1};
  size_t mask_ = 0;
  uint64_t seed_ = 0;
  uint64_t multiplier_ = 1;
};

}  // namespace rafter::text

#include "text/bpe_tables.h"

#include <bit>
#include <random>

#include <xxhash.h>

namespace rafter::text {
namespace {

uint64_t process_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  return seed;
}

size_t slots_for(size_t count) { return std::bit_ceil(count * 2 + 2); }

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  static const uint64_t seed = process_seed();
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

void PieceTable::reserve(size_t count) {
  slots_.assign(slots_for(count), Slot{});
  mask_ = slots_.size() - 1;
}

int32_t PieceTable::insert(const TokenBytes& bytes, int32_t id) {
  const uint64_t hash = hash_bytes(bytes[id]);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
    if (slots_[i].id < 0) {
      slots_[i] = {tag, id};
      return -1;
    }
    if (slots_[i].tag == tag && bytes[slots_[i].id] == bytes[id]) return slots_[i].id;
  }
}

int32_t PieceTable::find(const TokenBytes& bytes, std::string_view wanted) const {
  const uint64_t hash = hash_bytes(wanted);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask_; slots_[i].id >= 0; i = (i + 1) & mask_) {
    if (slots_[i].tag == tag && bytes[slots_[i].id] == wanted) return slots_[i].id;
  }
  return -1;
}

void MergeTable::reserve(size_t count) {
  slots_.assign(slots_for(count), Slot{});
  mask_ = slots_.size() - 1;
  seed_ = process_seed();
  multiplier_ = (process_seed() * 0xD1342543DE82EF95u) | 1;
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge, bool replace) {
  const uint64_t key = key_of(left, right);
  for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
    if (slots_[i].key == key) {
      if (replace) slots_[i].merge = merge;
      return;
    }
    if (slots_[i].key == kEmpty) {
      slots_[i] = {key, merge};
      return;
    }
  }
}

}  // namespace rafter::text

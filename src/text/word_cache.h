// Remembers the ids of short words. Text repeats its words, so most of them are answered here with one line
// of memory instead of a look-up in tables of megabytes and some merging.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "text/bpe_tables.h"

namespace rafter::text {

// Direct-mapped: a word has one slot, and the last one that wanted it keeps it.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 26;
  static constexpr size_t kMostIds = 9;

  struct alignas(64) Slot {
    uint8_t length = 0;  // of the word in bytes; 0: empty
    uint8_t count = 0;   // of its ids
    std::array<char, kLongestWord> word;
    std::array<int32_t, kMostIds> ids;

    bool holds(std::string_view wanted) const {
      return length == wanted.size() && std::memcmp(word.data(), wanted.data(), wanted.size()) == 0;
    }
    std::span<const int32_t> found() const { return {ids.data(), count}; }
  };

  // The slot of a word; null if it is too long to be remembered. Precondition: the word is not empty.
  Slot* slot_of(std::string_view word) {
    if (word.size() > kLongestWord) return nullptr;
    if (slots_ == nullptr) slots_ = std::make_unique<Slot[]>(kSlots);
    return &slots_[hash_bytes(word) & (kSlots - 1)];
  }

  static void store(Slot& slot, std::string_view word, std::span<const int32_t> ids) {
    if (ids.size() > kMostIds) return;
    slot.length = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.word.begin());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 14;

  std::unique_ptr<Slot[]> slots_;
};

}  // namespace rafter::text

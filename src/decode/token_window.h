// Counts of the tokens in the last n tokens of a history, kept up to date as the history grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace rafter::decode {

class TokenWindow {
 public:
  // The last `length` tokens; 0: the whole history.
  explicit TokenWindow(int32_t length) : length_(static_cast<size_t>(length)) {}

  // `history` is that of the last call with tokens appended.
  void update(std::span<const int32_t> history);

  // Distinct tokens of the window and how often each occurs (≥ 1).
  const std::unordered_map<int32_t, int32_t>& counts() const { return counts_; }

 private:
  void remove(int32_t token);
  size_t begin_of(size_t size) const;

  size_t length_;
  size_t size_ = 0;  // of the history at the last call
  std::unordered_map<int32_t, int32_t> counts_;
};

}  // namespace rafter::decode

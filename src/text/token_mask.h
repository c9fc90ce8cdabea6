// Which tokens of a vocabulary may come next, immutable. Kept as the few that may, the few that may not, or
// one bit for each, whatever is smallest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rafter::text {

// One bit per id, in 64-bit words; what is written at, not what is kept.
class TokenBits {
 public:
  explicit TokenBits(int32_t size = 0) : words_((static_cast<size_t>(size) + 63) / 64), size_(size) {}

  void set(int32_t id) { words_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64); }
  void reset(int32_t id) { words_[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64)); }
  bool test(int32_t id) const { return (words_[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0; }

  int32_t size() const { return size_; }
  int32_t count() const;
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
  int32_t size_;
};

class TokenMask {
 public:
  explicit TokenMask(const TokenBits& allowed);

  // Sets the logits of all other tokens to −inf, of ids past the vocabulary's too.
  void apply(std::span<float> logits) const;
  bool allows(int32_t id) const;
  int32_t allowed() const { return allowed_; }  // how many
  std::vector<int32_t> allowed_ids() const;     // ascending

  size_t memory() const;
  bool operator==(const TokenMask&) const = default;
  uint64_t hash() const;

 private:
  void apply_allowed(std::span<float> logits) const;
  void apply_bits(std::span<float> logits) const;

  enum class Kind : uint8_t { allowed, forbidden, bits };
  Kind kind_;
  int32_t size_, allowed_;
  std::vector<int32_t> ids_;     // ascending; of Kind::allowed and Kind::forbidden
  std::vector<uint64_t> words_;  // of Kind::bits
};

}  // namespace rafter::text

#include "text/token_mask.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <xxhash.h>

namespace rafter::text {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> logits) { std::fill(logits.begin(), logits.end(), kForbidden); }

// Whichever are fewer are written one by one: a test of every bit takes twice as long.
void apply_word(uint64_t allowed, std::span<float> logits) {
  std::array<float, 64> kept;
  const bool are_few = std::popcount(allowed) < 24;
  if (are_few) {
    std::copy(logits.begin(), logits.end(), kept.begin());
    forbid(logits);
  }
  for (uint64_t word = are_few ? allowed : ~allowed; word != 0; word &= word - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(word));
    if (i < logits.size()) logits[i] = are_few ? kept[i] : kForbidden;
  }
}

}  // namespace

int32_t TokenBits::count() const {
  int32_t count = 0;
  for (uint64_t word : words_) count += std::popcount(word);
  return count;
}

TokenMask::TokenMask(const TokenBits& allowed) : size_(allowed.size()), allowed_(allowed.count()) {
  const auto longest_list = static_cast<int32_t>(allowed.words().size());  // half of what the bits take
  kind_ = allowed_ <= longest_list           ? Kind::allowed
          : size_ - allowed_ <= longest_list ? Kind::forbidden
                                             : Kind::bits;
  if (kind_ == Kind::bits) {
    words_.assign(allowed.words().begin(), allowed.words().end());
    return;
  }
  const uint64_t flip = kind_ == Kind::allowed ? 0 : ~uint64_t{0};
  for (size_t i = 0; i < allowed.words().size(); ++i) {
    for (uint64_t word = allowed.words()[i] ^ flip; word != 0; word &= word - 1) {
      const auto id = static_cast<int32_t>(i * 64) + std::countr_zero(word);
      if (id < size_) ids_.push_back(id);
    }
  }
}

void TokenMask::apply(std::span<float> logits) const {
  const auto size = static_cast<size_t>(size_);
  if (logits.size() > size) {
    forbid(logits.subspan(size));
    logits = logits.first(size);
  }
  switch (kind_) {
    case Kind::allowed:
      return apply_allowed(logits);
    case Kind::bits:
      return apply_bits(logits);
    case Kind::forbidden:
      for (int32_t id : ids_) {
        if (static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kForbidden;
      }
  }
}

void TokenMask::apply_allowed(std::span<float> logits) const {
  size_t begin = 0;  // of the stretch up to the next one allowed
  for (int32_t id : ids_) {
    const auto index = static_cast<size_t>(id);
    if (index >= logits.size()) break;
    forbid(logits.subspan(begin, index - begin));
    begin = index + 1;
  }
  forbid(logits.subspan(std::min(begin, logits.size())));
}

void TokenMask::apply_bits(std::span<float> logits) const {
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const uint64_t word = words_[begin / 64];
    const std::span<float> part = logits.subspan(begin, std::min<size_t>(64, logits.size() - begin));
    if (word == 0) {
      forbid(part);
    } else if (word != ~uint64_t{0}) {
      apply_word(word, part);
    }
  }
}

bool TokenMask::allows(int32_t id) const {
  if (id < 0 || id >= size_) return false;
  if (kind_ == Kind::bits) return (words_[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
  return std::binary_search(ids_.begin(), ids_.end(), id) == (kind_ == Kind::allowed);
}

std::vector<int32_t> TokenMask::allowed_ids() const {
  if (kind_ == Kind::allowed) return ids_;
  std::vector<int32_t> result;
  result.reserve(static_cast<size_t>(allowed_));
  auto forbidden = ids_.begin();
  for (int32_t id = 0; id < size_; ++id) {
    const bool is_listed = forbidden != ids_.end() && *forbidden == id;
    if (is_listed) ++forbidden;
    if (kind_ == Kind::bits ? allows(id) : !is_listed) result.push_back(id);
  }
  return result;
}

size_t TokenMask::memory() const {
  return sizeof(TokenMask) + ids_.size() * sizeof(int32_t) + words_.size() * sizeof(uint64_t);
}

uint64_t TokenMask::hash() const {
  const uint64_t seed =
      XXH3_64bits_withSeed(ids_.data(), ids_.size() * sizeof(int32_t), static_cast<uint64_t>(kind_));
  return XXH3_64bits_withSeed(words_.data(), words_.size() * sizeof(uint64_t), seed);
}

}  // namespace rafter::text

// The six-bit scales and minima of Q4_K and Q5_K: eight pairs in twelve bytes.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Eight bytes each, that of group 0 lowest.
struct KScales {
  uint64_t scales, minima;
};

[[gnu::always_inline]] inline KScales read_k_scales(const std::byte* packed) {
  constexpr uint32_t kSix = 0x3F3F3F3F, kFour = 0x0F0F0F0F, kTwo = 0x03030303;
  const auto first = load_bytes<uint32_t>(packed), second = load_bytes<uint32_t>(packed + 4);
  const auto third = load_bytes<uint32_t>(packed + 8);
  const uint32_t scales = (third & kFour) | (first >> 6 & kTwo) << 4;
  const uint32_t minima = (third >> 4 & kFour) | (second >> 6 & kTwo) << 4;
  return {(first & kSix) | uint64_t{scales} << 32, (second & kSix) | uint64_t{minima} << 32};
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

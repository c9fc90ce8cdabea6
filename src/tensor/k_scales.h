// What GGUF's K formats of 256 values with minima (Q2_K, Q4_K, Q5_K) share: a block's groups have an integer
// scale and an integer minimum, value = d·scale·q − dmin·minimum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tensor/codec_formats.h"
#include "tensor/dtype.h"

namespace rafter::tensor::codec {

struct KScale {
  int scale = 0, minimum = 0;
};

// The pair of group j (of 8) out of the 12 bytes of Q4_K and Q5_K: six bits each, those of the later four
// groups in two parts.
inline KScale read_k_scale(const uint8_t packed[12], size_t j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4};
}

// Adds group j's pair to 12 bytes that were zero.
inline void write_k_scale(KScale value, uint8_t packed[12], size_t j) {
  const auto scale = static_cast<uint8_t>(value.scale), minimum = static_cast<uint8_t>(value.minimum);
  if (j < 4) {
    packed[j] |= scale;
    packed[j + 4] |= minimum;
    return;
  }
  packed[j + 4] |= static_cast<uint8_t>((scale & 15) | minimum << 4);
  packed[j - 4] |= static_cast<uint8_t>(scale >> 4 << 6);
  packed[j] |= static_cast<uint8_t>(minimum >> 4 << 6);
}

// A block before it is packed.
struct KBlockCodes {
  uint16_t d = 0, dmin = 0;  // half bits
  KScale scales[16];         // by group
  uint8_t codes[256];
};

// Groups of kGroup values from their lowest (or zero) to their highest, to codes 0 to kHighestCode; integer
// scales and minima up to kHighestScale.
template <size_t kGroup, int kHighestCode, int kHighestScale>
KBlockCodes encode_k_block(std::span<const float> values) {
  KBlockCodes block;
  float scales[256 / kGroup], minima[256 / kGroup], largest_scale = 0, largest_minimum = 0;
  for (size_t g = 0; g < 256 / kGroup; ++g) {
    const auto group = values.subspan(g * kGroup, kGroup);
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    minima[g] = std::max(0.0f, -*low);
    scales[g] = std::max(0.0f, (*high + minima[g]) / kHighestCode);
    largest_scale = std::max(largest_scale, scales[g]);
    largest_minimum = std::max(largest_minimum, minima[g]);
  }
  block.d = f32_to_f16(largest_scale / kHighestScale);
  block.dmin = f32_to_f16(largest_minimum / kHighestScale);
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  const auto whole = [](float part, float unit) {
    return unit > 0 ? clamp_code(std::rint(part / unit), 0, kHighestScale) : 0;
  };
  for (size_t g = 0; g < 256 / kGroup; ++g) {
    block.scales[g] = {whole(scales[g], d), whole(minima[g], dmin)};
    const float scale = d * static_cast<float>(block.scales[g].scale);
    const float minimum = dmin * static_cast<float>(block.scales[g].minimum);
    for (size_t e = g * kGroup; e < (g + 1) * kGroup; ++e) {
      block.codes[e] = static_cast<uint8_t>(
          scale > 0 ? clamp_code(std::rint((values[e] + minimum) / scale), 0, kHighestCode) : 0);
    }
  }
  return block;
}

}  // namespace rafter::tensor::codec

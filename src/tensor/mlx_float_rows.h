// What MLX's floating-point modes share: groups of `group` codes, LSB first, with one byte of scale each.
#pragma once

#include <algorithm>

#include "tensor/codec_formats.h"
#include "tensor/small_float.h"

namespace rafter::tensor::codec {

// decode_scale(byte) → fp32. Nibble 2i is the low one of byte i.
template <class DecodeScale>
void decode_e2m1_groups(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out,
                        DecodeScale decode_scale) {
  for (size_t start = 0; start < out.size(); start += format.group) {
    const float half_scale = 0.5f * decode_scale(std::to_integer<uint8_t>(row.scales[start / format.group]));
    for (size_t i = start; i < start + format.group; i += 2) {
      const auto codes = std::to_integer<uint8_t>(row.data[i / 2]);
      out[i] = half_scale * static_cast<float>(kTwiceE2M1[codes & 15]);
      out[i + 1] = half_scale * static_cast<float>(kTwiceE2M1[codes >> 4]);
    }
  }
}

inline float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// The smallest power of two, as E8M0, by which a group of values up to `largest` becomes values up to `most`.
inline uint8_t choose_e8m0(float largest, float most) {
  if (!(largest > 0)) return 127;
  const float exponent = std::clamp(std::ceil(std::log2(largest / most)), -127.0f, 127.0f);
  return static_cast<uint8_t>(exponent + 127);
}

// choose_scale(group of values) → byte.
template <class ChooseScale, class DecodeScale>
void encode_e2m1_groups(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row,
                        ChooseScale choose_scale, DecodeScale decode_scale) {
  for (size_t start = 0; start < values.size(); start += format.group) {
    const uint8_t byte = choose_scale(values.subspan(start, format.group));
    row.scales[start / format.group] = static_cast<std::byte>(byte);
    const float scale = decode_scale(byte);
    const auto code = [&](float value) { return scale == 0 ? 0 : f32_to_e2m1(value / scale); };
    for (size_t i = start; i < start + format.group; i += 2) {
      row.data[i / 2] = static_cast<std::byte>(code(values[i]) | code(values[i + 1]) << 4);
    }
  }
}

}  // namespace rafter::tensor::codec

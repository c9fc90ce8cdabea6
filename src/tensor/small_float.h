// The floats of 4 and 8 bits that block-scaled formats are made of (OCP Microscaling Formats 1.0; E4M3 as in
// OCP FP8 1.0).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace rafter::tensor {

// E2M1 times two, so that all are integers: bit 3 is the sign. The second zero is a negative one.
inline constexpr int8_t kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// To nearest, ties towards zero as MLX quantises on the CPU (its Metal kernel: to even codes); beyond 6 the
// result is 6. There is no negative zero; NaN becomes 0.
inline uint8_t f32_to_e2m1(float value) {
  const float magnitude = std::fabs(value);
  const int code = magnitude > 5       ? 7
                   : magnitude > 3.5f  ? 6
                   : magnitude > 2.5f  ? 5
                   : magnitude > 1.75f ? 4
                   : magnitude > 1.25f ? 3
                   : magnitude > 0.75f ? 2
                   : magnitude > 0.25f ? 1
                                       : 0;
  return static_cast<uint8_t>(code | (code != 0 && value < 0 ? 8 : 0));
}

// 4 exponent bits of bias 7, 3 mantissa bits, no infinities: the largest is 448, 0x7F and 0xFF are NaN.
inline float e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t magnitude = bits & 0x7F;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000);
  // Exponent and mantissa in place, scaled by 2^(127 − 7): subnormals come out right.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// To nearest, ties to even; beyond 448 the result is 448. NaN becomes NaN.
inline uint8_t f32_to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7F;
  if (magnitude >= 448) return sign | 0x7E;
  if (magnitude < 0x1p-6f) return sign | static_cast<uint8_t>(std::rint(magnitude * 0x1p9f));  // subnormal
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + 0x7FFFF + (bits >> 20 & 1);
  return sign | static_cast<uint8_t>((rounded - 0x3C000000) >> 20);
}

// 2^(bits − 127); 0xFF, NaN in the standard, is infinity here as in MLX.
inline float e8m0_to_f32(uint8_t bits) {
  return std::bit_cast<float>(bits == 0 ? 0x400000u : static_cast<uint32_t>(bits) << 23);
}

}  // namespace rafter::tensor

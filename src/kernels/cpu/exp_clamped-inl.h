// The exponential behind every gated activation and cap: plain lane-wise code, which compilers vectorise;
// nothing is contracted, so every tier gives the same bits.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include <bit>
#include <cstdint>

namespace rafter::kernels::RAFTER_TIER {

// e^x for x clamped to [−87, 88], to 2 units in the last place: x = n·ln 2 + r, |r| ≤ ln 2 / 2, and a
// polynomial in r (Cephes' expf coefficients).
inline float exp_clamped(float x) {
  x = x < 88.0f ? x : 88.0f;
  x = x > -87.0f ? x : -87.0f;
  constexpr float kRounder = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504088896341f + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;  // n, modulo 2^9
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}

}  // namespace rafter::kernels::RAFTER_TIER

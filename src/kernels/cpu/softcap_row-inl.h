// c · tanh(x / c) of a run of values, for every kernel that caps: plain lane-wise code, which compilers
// vectorise; nothing is contracted, so every tier gives the same bits.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/exp_clamped-inl.h"

namespace rafter::kernels::RAFTER_TIER {

// To 3 units in the last place: near 0 an odd polynomial (Cephes' tanhf coefficients), beyond
// 1 − 2 / (e^2|x| + 1). NaN passes.
inline float tanh_accurate(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float magnitude = x < 0 ? -x : x;
  const float far = 1.0f - 2.0f / (exp_clamped(2.0f * magnitude) + 1.0f);
  const float large = x < 0 ? -far : far;
  return magnitude >= 0.625f ? large : small;
}

// out[i] = cap · tanh(x[i] / cap); out may be x.
inline void softcap_row(const float* x, int64_t width, float cap, float* out) {
  for (int64_t i = 0; i < width; ++i) out[i] = cap * tanh_accurate(x[i] / cap);
}

}  // namespace rafter::kernels::RAFTER_TIER

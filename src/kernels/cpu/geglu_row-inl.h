// One row's gelu-gated activation, as swiglu_row-inl.h: one body for every kernel that gates so.
//
// gelu_tanh(x) = x/2 · (1 + tanh(u)) = x · σ(2u), u = √(2/π) · (x + 0.044715 x³).
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/exp_clamped-inl.h"
#include "kernels/cpu/row_functions.h"

namespace rafter::kernels::RAFTER_TIER {

// out[i] = gelu_tanh(gate[i]) · up[i]; out may be gate.
void geglu_row(const float* gate, const float* up, int64_t width, float* out) {
  constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
  for (int64_t i = 0; i < width; ++i) {
    // gelu_tanh(−10) is −1e-37: below it the exponential stops growing, and so must what it divides. NaN
    // passes.
    const float g = gate[i] < -10.0f ? -10.0f : gate[i];
    const float twice_u = kTwoRootTwoOverPi * (g + 0.044715f * (g * g * g));
    out[i] = g / (1.0f + exp_clamped(-twice_u)) * up[i];
  }
}

}  // namespace rafter::kernels::RAFTER_TIER

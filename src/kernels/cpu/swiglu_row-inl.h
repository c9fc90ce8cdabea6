// One row's gated activation, shared by the swiglu kernel and by matmul's swiglu epilogue so that both give
// the same bits: swiglu_row() is the one body of op/elementwise.h's formula. Plain lane-wise code, which
// compilers vectorise; nothing is contracted, so every tier gives the same bits.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/exp_clamped-inl.h"
#include "kernels/cpu/row_functions.h"

namespace rafter::kernels::RAFTER_TIER {

// out[i] = gate[i] · σ(gate[i]) · up[i]; out may be gate.
void swiglu_row(const float* gate, const float* up, int64_t width, float* out) {
  for (int64_t i = 0; i < width; ++i) {
    // silu(−88) is −5e-37: below it the exponential stops growing, and so must what it divides. NaN passes.
    const float g = gate[i] < -88.0f ? -88.0f : gate[i];
    out[i] = g / (1.0f + exp_clamped(-g)) * up[i];
  }
}

}  // namespace rafter::kernels::RAFTER_TIER

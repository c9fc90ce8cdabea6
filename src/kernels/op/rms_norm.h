// Root-mean-square norm over groups of `width` elements:
//   out = x · (mean(x²) + epsilon)^(−1/2) · weight        (sums in the order contract, fp32 or wider)
// A row holds `groups` of them side by side: 1 for a layer's norm, H for a norm per attention head.
//
// The fused form adds to what the rows had: out = scale · (residual + norm(x)); equals rms_norm, add and
// scale bit for bit.
#pragma once

#include "kernels/op/step.h"

namespace rafter::kernels {

struct RmsNormArgs {
  const int32_t* rows = nullptr;  // live row count
  int32_t groups = 1;
  int64_t width = 0;
  float epsilon = 0;
  const float* weight = nullptr;    // [width], shared by all groups; null: 1 everywhere
  const float* x = nullptr;         // [B, groups · width]
  float* out = nullptr;             // the same shape; may be x, or residual
  bool adds_residual = false;       // fused
  float scale = 1;                  // fused
  const float* residual = nullptr;  // fused: the same shape
};

inline Cost cost(const RmsNormArgs& a, int64_t rows) {
  const int64_t elements = rows * a.groups * a.width;
  return {a.weight != nullptr ? a.width * 4 : 0, 0, elements * (a.adds_residual ? 12 : 8),
          elements * (a.adds_residual ? 6 : 4)};
}

}  // namespace rafter::kernels

// Root-mean-square norm over groups of `width` elements:
//   out = x · (mean(x²) + epsilon)^(−1/2) · weight        (sums in the order contract, fp32 or wider)
// A row holds `groups` of them side by side: 1 for a layer's norm, H for a norm per attention head.
#pragma once

#include "kernels/op/step.h"

namespace rafter::kernels {

struct RmsNormArgs {
  const int32_t* rows = nullptr;  // live row count
  int32_t groups = 1;
  int64_t width = 0;
  float epsilon = 0;
  const float* weight = nullptr;  // [width], shared by all groups
  const float* x = nullptr;       // [B, groups · width]
  float* out = nullptr;           // the same shape; may be x
};

inline Cost cost(const RmsNormArgs& a, int64_t rows) {
  const int64_t elements = rows * a.groups * a.width;
  return {a.width * 4, 0, elements * 8, elements * 4};
}

}  // namespace rafter::kernels

// One row's RMS norm, shared by the rms_norm kernel and by matmul's norm prologue so that both give the same
// bits: norm_row() is the one body of op/rms_norm.h's formula.
//
// Order of the sum of squares: 64 fp32 lanes stride through the row (lane l takes k ≡ l mod 64), are folded
// in halves (l + 32, l + 16, … l + 1), and a tail of fewer than 64 is added last, in ascending order. It
// depends on `width` only, and since nothing is contracted to a fused multiply-add it is the same in every
// tier.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/row_functions.h"

namespace rafter::kernels::RAFTER_TIER {

// fp32 lanes in vectors of the tier's own width (GCC 12 splits wider ones through memory: 9 times slower).
#if defined(__AVX512F__)
inline constexpr int kNormVectorLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kNormVectorLanes = 8;
#else
inline constexpr int kNormVectorLanes = 4;
#endif
typedef float NormVector __attribute__((vector_size(4 * kNormVectorLanes)));

float inverse_rms(const float* x, int64_t width, float epsilon) {
  constexpr int kVectors = 64 / kNormVectorLanes;
  NormVector sums[kVectors] = {};
  int64_t k = 0;
  for (; k + 64 <= width; k += 64) {
    for (int i = 0; i < kVectors; ++i) {
      NormVector v;
      std::memcpy(&v, x + k + i * kNormVectorLanes, sizeof(v));
      sums[i] += v * v;
    }
  }
  float lanes[64];
  std::memcpy(lanes, sums, sizeof(lanes));
  for (int half = 32; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  float sum = lanes[0];
  for (; k < width; ++k) sum += x[k] * x[k];
  return 1.0f / std::sqrt(sum / static_cast<float>(width) + epsilon);
}

// out[k] = (x[k] · inverse_rms) · weight[k]; out may be x. A null weight is 1 everywhere.
void norm_row(const float* x, const float* weight, int64_t width, float epsilon, float* out) {
  const float scale = inverse_rms(x, width, epsilon);
  if (weight == nullptr) {
    for (int64_t k = 0; k < width; ++k) out[k] = x[k] * scale;
  } else {
    for (int64_t k = 0; k < width; ++k) out[k] = (x[k] * scale) * weight[k];
  }
}

// out[k] = factor · (residual[k] + norm_row(x)[k]); out may be x, or residual.
inline void norm_add_row(const float* x, const float* weight, int64_t width, float epsilon,
                         const float* residual, float factor, float* out) {
  const float scale = inverse_rms(x, width, epsilon);
  for (int64_t k = 0; k < width; ++k) out[k] = factor * (residual[k] + (x[k] * scale) * weight[k]);
}

}  // namespace rafter::kernels::RAFTER_TIER

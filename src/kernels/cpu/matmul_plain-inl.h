// Plain formats: bf16, f16, f32.
#pragma once

#include "kernels/cpu/matmul_float-inl.h"
#if defined(__AVX512F__)
#include "kernels/cpu/matmul_dot-inl.h"
#endif

namespace rafter::kernels::RAFTER_TIER {
namespace {

#if defined(__AVX512F__)
struct Bf16Input {
  static constexpr int kGroup = 0;
  static constexpr Biases kBiases = Biases::none;
  static constexpr int column(int v, int i) { return 32 * v + i; }
  static constexpr int lane_group(int) { return 0; }
};

struct Bf16Format {
  using Input = Bf16Input;
  static constexpr bool kScaled = false;
  static constexpr int64_t kStepBytes = 2 * kStep;
  static constexpr int64_t kStepScaleBytes = 0;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, DotStep& step) {
    for (int v = 0; v < kVectors; ++v) step.codes[v] = as_bf16(_mm512_loadu_si512(data + v * kVectorBytes));
  }
};
#endif

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

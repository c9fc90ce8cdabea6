// One rotated element, and how an element is stored in a cache of floats: what the kernels that rotate share.
#pragma once

#include "kernels/op/rope.h"

namespace rafter::kernels::cuda {

// A pair of dims, already times the magnitude.
__device__ inline float2 rotated_pair(float first, float second, float cosine, float sine) {
  return {__fsub_rn(__fmul_rn(first, cosine), __fmul_rn(second, sine)),
          __fadd_rn(__fmul_rn(first, sine), __fmul_rn(second, cosine))};
}

// Element d of a rotated head.
__device__ inline float rotated(const RopeArgs& a, const float* head, const float* angles, int d) {
  const int pairs = a.rotated_dims / 2;
  if (d >= a.rotated_dims) return head[d];
  const bool half = a.layout == RopeLayout::half;
  const int pair = half ? d % pairs : d / 2;
  const bool second = half ? d >= pairs : d & 1;
  const float first_value = a.magnitude * head[half ? pair : 2 * pair];
  const float second_value = a.magnitude * head[half ? pair + pairs : 2 * pair + 1];
  const float cosine = angles[pair], sine = angles[pairs + pair];
  const float2 both = rotated_pair(first_value, second_value, cosine, sine);
  return second ? both.y : both.x;
}

// Nearest, ties to even.
__device__ inline void store_cached(const KvLayer& cache, std::byte* to, int d, float value) {
  if (cache.type == tensor::DType::f32) {
    reinterpret_cast<float*>(to)[d] = value;
    return;
  }
  const uint32_t bits = __float_as_uint(value);
  reinterpret_cast<uint16_t*>(to)[d] = static_cast<uint16_t>(
      (bits & 0x7FFFFFFF) > 0x7F800000 ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace rafter::kernels::cuda

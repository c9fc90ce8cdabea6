// One vector of fp32 lanes, as wide as the tier has: the compilers' vector types, plus the few operations
// they have no operator for. (Highway 1.0.3 knows x86-64 from SSSE3 on only: its baseline there is one scalar
// lane.)
//
// Everything of a tier's file lies in an unnamed namespace inside the tier's: nothing compiled for one
// instruction set is visible to the linker, so none of it can serve another. For the same reason these files
// use no templates of the standard library.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace rafter::kernels::RAFTER_TIER {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfWords __attribute__((vector_size(2 * kLanes)));

// Any alignment.
[[gnu::always_inline]] inline Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
[[gnu::always_inline]] inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof(v)); }

[[gnu::always_inline]] inline Floats broadcast(float value) { return value - Floats{}; }

// a·b + c: fused where the tier has it, else rounded twice.
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// Nearest, ties to even; NaN stays NaN: tensor::f32_to_bf16, lane by lane.
[[gnu::always_inline]] inline HalfWords to_bf16(Floats v) {
  const Words bits = reinterpret_cast<Words>(v);
  const Words rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const Words quiet = bits >> 16 | 0x40;
  return __builtin_convertvector((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded, HalfWords);
}
[[gnu::always_inline]] inline Floats load_bf16(const void* from) {
  HalfWords v;
  std::memcpy(&v, from, sizeof(v));
  return reinterpret_cast<Floats>(__builtin_convertvector(v, Words) << 16);
}

// a > b ? a : b: b where either is NaN.
[[gnu::always_inline]] inline Floats maximum(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// Folds the lanes in halves: lane i with lane i + n/2, and so on.
inline float sum_of_lanes(Floats v) {
  float lanes[kLanes];
  std::memcpy(lanes, &v, sizeof(v));
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
inline float largest_lane(Floats v) {
  float lanes[kLanes];
  std::memcpy(lanes, &v, sizeof(v));
  float largest = lanes[0];
  for (int i = 1; i < kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

// e^x for x ≤ 0, to 1 unit in the last place; 1 at 0; 0 below −87.3, where the result would be subnormal; NaN
// stays NaN. x = n·ln 2 + r, |r| ≤ ln 2 / 2, and a polynomial in r (Cephes' expf coefficients).
[[gnu::always_inline]] inline Floats exp_nonpositive(Floats x) {
  const Floats rounder = broadcast(0x1.8p23f);  // adding it leaves the nearest integer in the low bits
  const Floats shifted = multiply_add(x, broadcast(1.44269504088896341f), rounder);
  const Floats n = shifted - rounder;
  // ln 2 in two parts, the first of few enough bits for its product with n to be exact.
  Floats r = multiply_add(n, broadcast(-0.693359375f), x);
  r = multiply_add(n, broadcast(2.12194440e-4f), r);
  Floats p = broadcast(1.9875691500e-4f);
  p = multiply_add(p, r, broadcast(1.3981999507e-3f));
  p = multiply_add(p, r, broadcast(8.3334519073e-3f));
  p = multiply_add(p, r, broadcast(4.1665795894e-2f));
  p = multiply_add(p, r, broadcast(1.6666665459e-1f));
  p = multiply_add(p, r, broadcast(5.0000001201e-1f));
  p = multiply_add(p, r * r, r) + 1.0f;
  const Words exponent = reinterpret_cast<Words>(shifted) << 23;  // n, modulo 2^9
  const Floats result = reinterpret_cast<Floats>(reinterpret_cast<Words>(p) + exponent);
  return x < -87.3f ? Floats{} : result;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

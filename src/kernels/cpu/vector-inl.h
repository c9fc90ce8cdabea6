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

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

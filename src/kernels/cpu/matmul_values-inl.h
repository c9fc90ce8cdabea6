// Stored codes and 16-bit floats as lanes of fp32, at any address.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/vector-inl.h"
#include "tensor/dtype.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

template <typename T>
[[gnu::always_inline]] inline T load_bytes(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// kLanes bf16.
[[gnu::always_inline]] inline Floats load_bf16_lanes(const std::byte* from) {
#if defined(__AVX2__) && !defined(__AVX512F__)  // GCC 12 splits load_bf16's conversion: 2 times slower
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
#else
  return load_bf16(from);
#endif
}

[[gnu::always_inline]] inline float bf16_value(const std::byte* from) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(load_bytes<uint16_t>(from)) << 16);
}

// kLanes halves.
[[gnu::always_inline]] inline Floats load_f16(const std::byte* from) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  HalfWords halves;
  std::memcpy(&halves, from, sizeof(halves));
  const Words bits = __builtin_convertvector(halves, Words);
  const Words magnitude = (bits & 0x7FFF) << 13;
  // Scaled by 2^112, which also makes subnormals right; infinity and NaN keep the largest exponent.
  const Words finite = reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) * 0x1p112f);
  const Words value = (bits & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : finite;
  return reinterpret_cast<Floats>(value | (bits & 0x8000) << 16);
#endif
}

// kLanes bytes as unsigned integers.
[[gnu::always_inline]] inline Words load_bytes_wide(const std::byte* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Words>(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128(load_bytes<int>(from));
  return reinterpret_cast<Words>(_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero));
#else
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  return __builtin_convertvector(load_bytes<Bytes>(from), Words);
#endif
}

// kLanes nibbles as unsigned integers, the low one of a byte first.
[[gnu::always_inline]] inline Words load_nibbles(const std::byte* from) {
#if defined(__AVX512F__)
  const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  return reinterpret_cast<Words>(_mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28))) & 15;
#elif defined(__AVX2__)
  const __m256i packed = _mm256_set1_epi32(load_bytes<int>(from));
  return reinterpret_cast<Words>(_mm256_srlv_epi32(packed, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28))) &
         15;
#elif defined(__SSE2__)  // no shifts by lane: a product moves each nibble to the top of its 16 bits
  const __m128i packed = _mm_set1_epi32(load_bytes<uint16_t>(from));
  return reinterpret_cast<Words>(
      _mm_srli_epi16(_mm_mullo_epi16(packed, _mm_setr_epi32(1 << 12, 1 << 8, 1 << 4, 1)), 12));
#else
  const Words packed = load_bytes<uint16_t>(from) - Words{};
  return packed >> Words{0, 4, 8, 12} & 15;
#endif
}

// Of integers below 2^31.
[[gnu::always_inline]] inline Floats to_floats(Words values) {
  typedef int32_t Integers __attribute__((vector_size(4 * kLanes)));
  return __builtin_convertvector(reinterpret_cast<Integers>(values), Floats);
}

[[gnu::always_inline]] inline float f16_value(const std::byte* from) {
#if defined(__F16C__)
  return _cvtsh_ss(load_bytes<uint16_t>(from));
#else
  const uint32_t bits = load_bytes<uint16_t>(from), magnitude = (bits & 0x7FFF) << 13;
  const float finite = __builtin_bit_cast(float, magnitude) * 0x1p112f;  // as in load_f16
  const uint32_t value =
      (bits & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : __builtin_bit_cast(uint32_t, finite);
  return __builtin_bit_cast(float, value | (bits & 0x8000) << 16);
#endif
}

// Element i of an array of scales or biases.
inline float scale_value(tensor::DType type, const std::byte* from, int64_t i) {
  switch (type) {
    case tensor::DType::f16:
      return f16_value(from + 2 * i);
    case tensor::DType::bf16:
      return bf16_value(from + 2 * i);
    default:
      return load_bytes<float>(from + 4 * i);
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

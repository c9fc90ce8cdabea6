// Nibbles that choose among sixteen levels, small integers.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"

#if defined(__AVX512F__)
#include "kernels/cpu/matmul_q4-inl.h"
#include "kernels/cpu/matmul_unpacked-inl.h"
#endif

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct Levels {
  alignas(16) int8_t level[16];
  alignas(16) uint8_t code[16];  // level + zero
  int zero;
};

constexpr Levels make_levels(const int8_t values[16], int zero) {
  Levels levels{};
  levels.zero = zero;
  for (int i = 0; i < 16; ++i) {
    levels.level[i] = values[i];
    levels.code[i] = static_cast<uint8_t>(values[i] + zero);
  }
  return levels;
}

#if defined(__AVX2__)

// scale · level of 16 nibbles, a byte each.
[[gnu::always_inline]] inline void store_levels(const Levels& levels, __m128i nibbles, float scale,
                                                float* out) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(levels.level));
  const __m128i values = _mm_shuffle_epi8(table, nibbles);
  const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
  const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(values, 8)));
  _mm256_storeu_ps(out, _mm256_mul_ps(low, _mm256_set1_ps(scale)));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(high, _mm256_set1_ps(scale)));
}

#endif

// 32 values out of 16 bytes: byte j holds elements j and j + 16.
inline void decode_split_levels(const Levels& levels, const std::byte* from, float scale, float* out) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), low = _mm_set1_epi8(15);
  store_levels(levels, _mm_and_si128(bytes, low), scale, out);
  store_levels(levels, _mm_and_si128(_mm_srli_epi16(bytes, 4), low), scale, out + 16);
#else
  for (int j = 0; j < 16; ++j) {
    const auto byte = static_cast<uint8_t>(from[j]);
    out[j] = scale * static_cast<float>(levels.level[byte & 15]);
    out[j + 16] = scale * static_cast<float>(levels.level[byte >> 4]);
  }
#endif
}

// 16 values out of 8 bytes: byte j holds elements 2j and 2j + 1.
inline void decode_paired_levels(const Levels& levels, const std::byte* from, float scale, float* out) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), low = _mm_set1_epi8(15);
  store_levels(levels,
               _mm_unpacklo_epi8(_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16(bytes, 4), low)),
               scale, out);
#else
  for (int j = 0; j < 8; ++j) {
    const auto byte = static_cast<uint8_t>(from[j]);
    out[2 * j] = scale * static_cast<float>(levels.level[byte & 15]);
    out[2 * j + 1] = scale * static_cast<float>(levels.level[byte >> 4]);
  }
#endif
}

#if defined(__AVX512F__)

// Of a step: each nibble becomes its level's code.
[[gnu::always_inline]] inline void to_levels(const Levels& levels, __m512i codes[4]) {
  const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(levels.code)));
  for (int v = 0; v < 4; ++v) codes[v] = _mm512_shuffle_epi8(table, codes[v]);
}

// The 256 levels of 128 bytes of nibbles in 8 groups, as affine 4 bit reads its codes.
[[gnu::always_inline]] inline void expand_levels(const Levels& levels, const std::byte* data,
                                                 __m512i codes[4]) {
  __m512i first, second;
  split_groups<32>(_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64), first, second);
  expand_nibbles(first, codes);
  expand_nibbles(second, codes + 2);
  to_levels(levels, codes);
}

// Which of a step's groups lies in which lane.
template <class Input>
struct LaneGroups {
  alignas(16) uint8_t group[16];
  constexpr LaneGroups() : group() {
    for (int lane = 0; lane < 16; ++lane) group[lane] = static_cast<uint8_t>(Input::lane_group(lane));
  }
  [[gnu::always_inline]] __m128i load() const {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(group));
  }
};

[[gnu::always_inline]] inline __m256i level_codes(const Levels& levels, __m256i nibbles) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(levels.code)));
  return _mm256_shuffle_epi8(table, nibbles);
}

// Group g of 32 of a row.
[[gnu::always_inline]] inline void unpack_levels(const Levels& levels, __m256i nibbles, float scale,
                                                 const UnpackedRow& row, int64_t g) {
  row.scales[g] = scale;
  row.biases[g] = -static_cast<float>(levels.zero) * scale;
  store_codes(row.codes + 32 * g, level_codes(levels, nibbles));
}

#endif

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

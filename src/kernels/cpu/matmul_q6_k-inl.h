// GGUF Q6_K: blocks of 256 6-bit codes in 16 groups of 16: 128 bytes of low nibbles, 64 of high bit pairs, 16
// signed scales, one f16 scale.
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_dot-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Lane 4q + p holds group 4p + q: a transposition of 16 × 4 words of four codes.
struct Q6KInput {
  static constexpr int kGroup = 16;
  static constexpr Biases kBiases = Biases::none;
  static constexpr int lane_group(int lane) { return lane % 4 * 4 + lane / 4; }
  static constexpr int column(int v, int i) {
    return 16 * lane_group(i / 2) + 4 * (v / 2) + 2 * (i % 2) + v % 2;
  }
};

struct Q6KTables {
  alignas(64) uint16_t code[64];     // bf16 of code − 32
  alignas(64) uint8_t shift[2][64];  // for the lower and upper nibbles of 64 bytes, where the high bits lie
  uint8_t scale[16];
  constexpr Q6KTables() : code(), shift(), scale() {
    for (int i = 0; i < 64; ++i) {
      code[i] = bf16_of(i - 32);
      // Strip s of 32 codes has its high bits at bits 2s and 2s + 1 of its 32 bytes; they go to bits 4 and 5.
      for (int h = 0; h < 2; ++h) {
        const int strip = 2 * h + i / 32;
        shift[h][i] = static_cast<uint8_t>((8 * (i % 8) + 2 * strip - 4) & 63);
      }
    }
    for (int lane = 0; lane < 16; ++lane) scale[lane] = static_cast<uint8_t>(Q6KInput::lane_group(lane));
  }
};
constexpr Q6KTables kQ6KTables;

struct Q6KFormat {
  using Input = Q6KInput;
  static constexpr bool kScaled = true;
  static constexpr int64_t kStepBytes = 210;
  static constexpr int64_t kStepScaleBytes = 0;

  // The 128 codes of half a block, the two bits above each being anything.
  [[gnu::always_inline]] static void read_half(const std::byte* nibbles, const std::byte* pairs,
                                               __m512i codes[2]) {
    const __m512i low = _mm512_loadu_si512(nibbles);
    const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)));
    const __m512i low_bits = _mm512_set1_epi8(0x0F);
    constexpr int kSelect = 0xCA;  // a ? b : c
    for (int h = 0; h < 2; ++h) {
      const __m512i window = _mm512_multishift_epi64_epi8(_mm512_load_si512(kQ6KTables.shift[h]), high);
      codes[h] =
          _mm512_ternarylogic_epi64(low_bits, h == 0 ? low : _mm512_srli_epi16(low, 4), window, kSelect);
    }
  }

  // vpermi2w looks at the lower six bits of a word only.
  [[gnu::always_inline]] static void expand_bytes(__m512i bytes, __m512bh codes[2]) {
    const __m512i table0 = _mm512_load_si512(kQ6KTables.code),
                  table1 = _mm512_load_si512(kQ6KTables.code + 32);
    codes[0] = as_bf16(_mm512_permutex2var_epi16(table0, bytes, table1));
    codes[1] = as_bf16(_mm512_permutex2var_epi16(table0, _mm512_srli_epi16(bytes, 8), table1));
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, DotStep& step) {
    __m512i codes[4];
    read_half(data, data + 128, codes);
    read_half(data + 64, data + 160, codes + 2);
    const __m512i low0 = _mm512_unpacklo_epi32(codes[0], codes[1]);
    const __m512i high0 = _mm512_unpackhi_epi32(codes[0], codes[1]);
    const __m512i low1 = _mm512_unpacklo_epi32(codes[2], codes[3]);
    const __m512i high1 = _mm512_unpackhi_epi32(codes[2], codes[3]);
    expand_bytes(_mm512_unpacklo_epi64(low0, low1), step.codes);
    expand_bytes(_mm512_unpackhi_epi64(low0, low1), step.codes + 2);
    expand_bytes(_mm512_unpacklo_epi64(high0, high1), step.codes + 4);
    expand_bytes(_mm512_unpackhi_epi64(high0, high1), step.codes + 6);

    const __m128i order = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kQ6KTables.scale));
    const __m128i scales =
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 192)), order);
    uint16_t half;
    std::memcpy(&half, data + 208, 2);
    const __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(half)));
    step.scale = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

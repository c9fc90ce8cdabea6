// GGUF Q6_K: blocks of 256 6-bit codes in 16 groups of 16: 128 bytes of low nibbles, 64 of high bit pairs, 16
// signed scales, one f16 scale.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: d·scale·(q − 32). Strip s of 32 codes in half a block has
// its low bits in nibbles s / 2 of 32 bytes, its upper bits at bit 2s of the half's 32 bytes of pairs.
struct Q6KDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 256 * 210;
    for (int64_t b = 0; b < count / 256; ++b, block += 210) {
      const float d = f16_value(block + 208);
      for (int strip = 0; strip < 8; ++strip, out += 32) {
        const int half = strip / 4, s = strip % 4;
        const std::byte* low = block + 64 * half + 32 * (s % 2);
        const std::byte* pairs = block + 128 + 32 * half;
        for (int i = 0; i < 32; i += kLanes) {
          const Words nibbles = load_bytes_wide(low + i) >> (4 * (s / 2)) & 15;
          const Words upper = load_bytes_wide(pairs + i) >> (2 * s) & 3;
          const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * strip + i / 16]));
          store(out + i, scale * (to_floats(nibbles | upper << 4) - 32.0f));
        }
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_codes_panel-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Lane 4q + p holds group 4p + q: a transposition of 16 × 4 words of four codes.
struct Q6KInput {
  static constexpr int kGroup = 16;
  static constexpr int kZero = 32;
  static constexpr Biases kBiases = Biases::none;
  static constexpr int lane_group(int lane) { return lane % 4 * 4 + lane / 4; }
  static constexpr int column(int v, int i) { return 16 * lane_group(i / 4) + 4 * v + i % 4; }
};

struct Q6KTables {
  alignas(64) uint8_t shift[2][64];  // for the low and high nibbles of 64 bytes, where the upper bits lie
  uint8_t scale[16];
  constexpr Q6KTables() : shift(), scale() {
    // Strip s of 32 codes has its upper bits at bits 2s and 2s + 1 of its 32 bytes; they go to bits 4 and 5.
    for (int i = 0; i < 64; ++i) {
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
  static constexpr int64_t kStepBytes = 210;
  static constexpr int64_t kStepScaleBytes = 0;

  // The 128 codes of half a block.
  [[gnu::always_inline]] static void read_half(const std::byte* nibbles, const std::byte* pairs,
                                               __m512i codes[2]) {
    const __m512i low = _mm512_loadu_si512(nibbles);
    const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)));
    constexpr int kSelect = 0xCA;  // a ? b : c
    for (int h = 0; h < 2; ++h) {
      const __m512i window = _mm512_multishift_epi64_epi8(_mm512_load_si512(kQ6KTables.shift[h]), high);
      const __m512i joined = _mm512_ternarylogic_epi64(
          _mm512_set1_epi8(0x0F), h == 0 ? low : _mm512_srli_epi16(low, 4), window, kSelect);
      codes[h] = _mm512_and_si512(joined, _mm512_set1_epi8(0x3F));
    }
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    __m512i codes[4];
    read_half(data, data + 128, codes);
    read_half(data + 64, data + 160, codes + 2);
    const __m512i low0 = _mm512_unpacklo_epi32(codes[0], codes[1]);
    const __m512i high0 = _mm512_unpackhi_epi32(codes[0], codes[1]);
    const __m512i low1 = _mm512_unpacklo_epi32(codes[2], codes[3]);
    const __m512i high1 = _mm512_unpackhi_epi32(codes[2], codes[3]);
    step.codes[0] = _mm512_unpacklo_epi64(low0, low1);
    step.codes[1] = _mm512_unpackhi_epi64(low0, low1);
    step.codes[2] = _mm512_unpacklo_epi64(high0, high1);
    step.codes[3] = _mm512_unpackhi_epi64(high0, high1);

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

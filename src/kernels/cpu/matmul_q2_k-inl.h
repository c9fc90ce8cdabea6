// GGUF Q2_K and Q3_K: blocks of 256 codes in 16 groups of 16. Strip s of 32 codes in half h lies at bits 2s
// and 2s + 1 of the half's 32 bytes; Q3_K has a third bit in 32 bytes of its own, bit 4h + s.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kQ2KBytes = 84, kQ3KBytes = 110;

// To fp32, for tiers without integer dot products: d·(scale & 15)·q − dmin·(scale >> 4).
struct Q2KDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 256 * kQ2KBytes;
    for (int64_t b = 0; b < count / 256; ++b, block += kQ2KBytes) {
      const float d = f16_value(block + 80), dmin = f16_value(block + 82);
      for (int g = 0; g < 16; ++g, out += 16) {
        const auto packed = static_cast<uint8_t>(block[g]);
        const float scale = d * static_cast<float>(packed & 15);
        const float minimum = dmin * static_cast<float>(packed >> 4);
        const std::byte* pairs = block + 16 + 32 * (g / 8) + 16 * (g % 2);
        for (int i = 0; i < 16; i += kLanes) {
          const Words codes = load_bytes_wide(pairs + i) >> (2 * (g % 8 / 2)) & 3;
          store(out + i, scale * to_floats(codes) - minimum);
        }
      }
    }
  }
};

// Group g's scale, −32 to 31, out of 12 bytes.
inline int q3_k_scale(const std::byte* scales, int g) {
  const auto low = static_cast<uint8_t>(scales[g % 8]);
  const auto high = static_cast<uint8_t>(scales[8 + g % 4]);
  return ((g < 8 ? low & 15 : low >> 4) | (high >> (2 * (g / 4)) & 3) << 4) - 32;
}

// d·scale·(q − 4).
struct Q3KDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 256 * kQ3KBytes;
    for (int64_t b = 0; b < count / 256; ++b, block += kQ3KBytes) {
      const float d = f16_value(block + 108);
      for (int g = 0; g < 16; ++g, out += 16) {
        const float scale = d * static_cast<float>(q3_k_scale(block + 96, g));
        const std::byte* pairs = block + 32 + 32 * (g / 8) + 16 * (g % 2);
        const std::byte* third = block + 16 * (g % 2);
        for (int i = 0; i < 16; i += kLanes) {
          const Words low = load_bytes_wide(pairs + i) >> (2 * (g % 8 / 2)) & 3;
          const Words high = load_bytes_wide(third + i) >> (g / 2) & 1;
          store(out + i, scale * (to_floats(low | high << 2) - 4.0f));
        }
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_unpacked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Strip `strip` (of 8) of a block's 64 bytes of pairs.
[[gnu::always_inline]] inline __m256i bit_pairs(const std::byte* pairs, int strip) {
  const __m256i bytes = load_32(pairs + 32 * (strip / 4));
  return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(2 * (strip % 4))), _mm256_set1_epi8(3));
}

struct Q2KUnpacker {
  static constexpr int kGroup = 16;

  static void unpack(UnpackedRow row) {
    for (int64_t k = 0; k < row.columns; k += 256, row.data += kQ2KBytes) {
      const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.data));
      const __m512i wide = _mm512_cvtepu8_epi32(packed);
      const __m512 scales = _mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(15)));
      const __m512 minima = _mm512_cvtepi32_ps(_mm512_srli_epi32(wide, 4));
      _mm512_storeu_ps(row.scales + k / 16, _mm512_mul_ps(scales, _mm512_set1_ps(f16_value(row.data + 80))));
      _mm512_storeu_ps(row.biases + k / 16, _mm512_mul_ps(minima, _mm512_set1_ps(-f16_value(row.data + 82))));
      for (int s = 0; s < 8; ++s) store_codes(row.codes + k + 32 * s, bit_pairs(row.data + 16, s));
    }
  }
};

struct Q3KUnpacker {
  static constexpr int kGroup = 16;

  // Low nibbles in two halves; pairs of high bits by a shift of every four bytes.
  [[gnu::always_inline]] static __m512i scales(const std::byte* packed) {
    const auto low = load_bytes<uint64_t>(packed);
    const uint32_t high = load_bytes<uint32_t>(packed + 8);
    constexpr uint64_t kNibbles = 0x0F0F0F0F0F0F0F0F;
    const __m128i nibbles =
        _mm_set_epi64x(static_cast<int64_t>(low >> 4 & kNibbles), static_cast<int64_t>(low & kNibbles));
    const __m128i shifted =
        _mm_srlv_epi32(_mm_set1_epi32(static_cast<int>(high)), _mm_setr_epi32(0, 2, 4, 6));
    const __m128i pairs = _mm_slli_epi16(_mm_and_si128(shifted, _mm_set1_epi8(3)), 4);
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_or_si128(nibbles, pairs));
    return _mm512_sub_epi32(wide, _mm512_set1_epi32(32));
  }

  static void unpack(UnpackedRow row) {
    for (int64_t k = 0; k < row.columns; k += 256, row.data += kQ3KBytes) {
      const __m512 scale =
          _mm512_mul_ps(_mm512_cvtepi32_ps(scales(row.data + 96)), _mm512_set1_ps(f16_value(row.data + 108)));
      _mm512_storeu_ps(row.scales + k / 16, scale);
      _mm512_storeu_ps(row.biases + k / 16, _mm512_mul_ps(scale, _mm512_set1_ps(-4)));
      const __m256i third = load_32(row.data);
      for (int s = 0; s < 8; ++s) {
        const __m256i codes = bit_pairs(row.data + 32, s);
        const __mmask32 set = _mm256_test_epi8_mask(third, _mm256_set1_epi8(static_cast<char>(1 << s)));
        store_codes(row.codes + k + 32 * s, _mm256_mask_add_epi8(codes, set, codes, _mm256_set1_epi8(4)));
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

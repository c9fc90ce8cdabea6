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

#include "kernels/cpu/matmul_q8-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Lanes as in affine 8 bit with groups of 16: a lane a group.
template <int kZeroCode, Biases kBlockBiases>
struct K16Input {
  static constexpr int kGroup = 16;
  static constexpr int kZero = kZeroCode;
  static constexpr Biases kBiases = kBlockBiases;
  static constexpr int column(int v, int i) { return gathered_column<16>(v, i); }
  static constexpr int lane_group(int lane) { return column(0, 4 * lane) / 16; }
};

// Bytes in the order of the groups, in that of their lanes.
[[gnu::always_inline]] inline __m128i to_lanes(__m128i groups) {
  return _mm_shuffle_epi8(groups, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

// Columns 64v … 64v + 63 of a block: two strips out of the 64 bytes of pairs.
[[gnu::always_inline]] inline __m512i bit_pairs(const std::byte* pairs, int v) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs + 32 * (v / 2)));
  const __m256i first = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(4 * (v % 2)));
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), _mm256_srli_epi16(first, 2), 1);
  return _mm512_and_si512(both, _mm512_set1_epi8(3));
}

[[gnu::always_inline]] inline __m512 half_in_all(const std::byte* half) {
  return _mm512_cvtph_ps(_mm256_set1_epi16(load_bytes<int16_t>(half)));
}

struct Q2KFormat {
  using Input = K16Input<0, Biases::per_step>;
  static constexpr int64_t kStepBytes = kQ2KBytes;
  static constexpr int64_t kStepScaleBytes = 0;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    gather_groups<16>(bit_pairs(data + 16, 0), bit_pairs(data + 16, 1), bit_pairs(data + 16, 2),
                      bit_pairs(data + 16, 3), step.codes);
    const __m512i packed =
        _mm512_cvtepu8_epi32(to_lanes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data))));
    const __m512 scales = _mm512_cvtepi32_ps(_mm512_and_si512(packed, _mm512_set1_epi32(15)));
    const __m512 minima = _mm512_cvtepi32_ps(_mm512_srli_epi32(packed, 4));
    step.scale = _mm512_mul_ps(scales, half_in_all(data + 80));
    step.bias = _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(minima, half_in_all(data + 82)));
  }
};

struct Q3KFormat {
  using Input = K16Input<4, Biases::none>;
  static constexpr int64_t kStepBytes = kQ3KBytes;
  static constexpr int64_t kStepScaleBytes = 0;

  template <int kVector>
  [[gnu::always_inline]] static __m512i codes(const std::byte* data, __m512i third) {
    const __m256i low = _mm256_set1_epi8(static_cast<char>(1 << (2 * kVector)));
    const __m256i high = _mm256_set1_epi8(static_cast<char>(2 << (2 * kVector)));
    const __mmask64 set =
        _mm512_test_epi8_mask(third, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    const __m512i pairs = bit_pairs(data + 32, kVector);
    return _mm512_mask_add_epi8(pairs, set, pairs, _mm512_set1_epi8(4));
  }

  // In the order of the groups: low nibbles, then the upper two bits, four groups a shift.
  [[gnu::always_inline]] static __m128i scales(const std::byte* packed) {
    constexpr uint64_t kNibbles = 0x0F0F0F0F0F0F0F0F;
    const auto low = load_bytes<uint64_t>(packed);
    const __m128i nibbles =
        _mm_set_epi64x(static_cast<int64_t>(low >> 4 & kNibbles), static_cast<int64_t>(low & kNibbles));
    const __m128i high = _mm_set1_epi32(load_bytes<int>(packed + 8));
    const __m128i shifted = _mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6));
    return _mm_or_si128(nibbles, _mm_slli_epi16(_mm_and_si128(shifted, _mm_set1_epi8(3)), 4));
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    const __m512i third = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
    gather_groups<16>(codes<0>(data, third), codes<1>(data, third), codes<2>(data, third),
                      codes<3>(data, third), step.codes);
    const __m512i wide =
        _mm512_sub_epi32(_mm512_cvtepu8_epi32(to_lanes(scales(data + 96))), _mm512_set1_epi32(32));
    step.scale = _mm512_mul_ps(_mm512_cvtepi32_ps(wide), half_in_all(data + 108));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

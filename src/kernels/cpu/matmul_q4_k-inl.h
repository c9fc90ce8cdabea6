// GGUF Q4_K and Q5_K: blocks of 256 codes in 8 groups of 32: f16 d and dmin, 12 bytes of six-bit scales and
// minima, 128 bytes of nibbles in which groups 2p and 2p + 1 share 32. Q5_K has 32 bytes more before the
// nibbles: bit j of byte l is bit 4 of code l of group j.
#pragma once

#include "kernels/cpu/matmul_k_scales-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: d·scale·q − dmin·minimum.
template <bool kFifthBit>
struct QKDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    constexpr int64_t kHeader = kFifthBit ? 48 : 16, kBlock = kHeader + 128;
    const std::byte* block = weight.data + (n * weight.columns + k) / 256 * kBlock;
    for (int64_t b = 0; b < count / 256; ++b, block += kBlock) {
      const float d = f16_value(block), dmin = f16_value(block + 2);
      KScales packed = read_k_scales(block + 4);
      for (int j = 0; j < 8; ++j, out += 32, packed.scales >>= 8, packed.minima >>= 8) {
        const float scale = d * static_cast<float>(packed.scales & 63);
        const float minimum = dmin * static_cast<float>(packed.minima & 63);
        const std::byte* nibbles = block + kHeader + 32 * (j / 2);
        for (int i = 0; i < 32; i += kLanes) {
          Words codes = load_bytes_wide(nibbles + i) >> (4 * (j % 2)) & 15;
          if (kFifthBit) codes |= (load_bytes_wide(block + 16 + i) >> j & 1) << 4;
          store(out + i, scale * to_floats(codes) - minimum);
        }
      }
    }
  }
};
using Q4KDecoder = QKDecoder<false>;
using Q5KDecoder = QKDecoder<true>;

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_q4-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Lanes 2j and 2j + 1 hold group j. Of its 32 bytes, vector v holds in each lane 4 bytes of chunk v % 2 of
// 16, in the half v / 2 of 8.
struct Q4KInput {
  static constexpr int kGroup = 32;
  static constexpr int kZero = 0;
  static constexpr Biases kBiases = Biases::per_step;
  static constexpr int lane_group(int lane) { return lane / 2; }
  static constexpr int column(int v, int i) {
    const int lane = i / 4;
    return 32 * lane_group(lane) + 16 * (v % 2) + 8 * (v / 2) + 4 * (lane % 2) + i % 4;
  }
};

template <bool kFifthBit>
struct QKFormat {
  using Input = Q4KInput;
  static constexpr int64_t kHeader = kFifthBit ? 48 : 16;
  static constexpr int64_t kStepBytes = kHeader + 128;
  static constexpr int64_t kStepScaleBytes = 0;

  // Eight bytes as fp32, each in two lanes, times a half.
  [[gnu::always_inline]] static __m512 spread(uint64_t bytes, const std::byte* half) {
    const __m128i twice = _mm_unpacklo_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)),
                                            _mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
    const __m512 factor = _mm512_cvtph_ps(_mm256_set1_epi16(load_bytes<int16_t>(half)));
    return _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(twice)));
  }

  // Groups kLow and kLow + 2.
  template <int kLow>
  [[gnu::always_inline]] static __m512i add_fifth(__m512i codes, __m512i bits) {
    const __m256i low = _mm256_set1_epi8(static_cast<char>(1 << kLow));
    const __m256i high = _mm256_set1_epi8(static_cast<char>(1 << (kLow + 2)));
    const __mmask64 set =
        _mm512_test_epi8_mask(bits, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(16));
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    __m512i first[2], second[2];  // groups 0 and 2, 1 and 3; 4 and 6, 5 and 7
    expand_nibbles(_mm512_loadu_si512(data + kHeader), first);
    expand_nibbles(_mm512_loadu_si512(data + kHeader + 64), second);
    if constexpr (kFifthBit) {
      const __m256i fifth = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 16));
      const __m512i twice = _mm512_broadcast_i64x4(fifth);
      first[0] = add_fifth<0>(first[0], twice);
      first[1] = add_fifth<1>(first[1], twice);
      second[0] = add_fifth<4>(second[0], twice);
      second[1] = add_fifth<5>(second[1], twice);
    }
    const __m512i low0 = _mm512_unpacklo_epi64(first[0], first[1]);
    const __m512i high0 = _mm512_unpackhi_epi64(first[0], first[1]);
    const __m512i low1 = _mm512_unpacklo_epi64(second[0], second[1]);
    const __m512i high1 = _mm512_unpackhi_epi64(second[0], second[1]);
    step.codes[0] = _mm512_shuffle_i32x4(low0, low1, 0x88);
    step.codes[1] = _mm512_shuffle_i32x4(low0, low1, 0xDD);
    step.codes[2] = _mm512_shuffle_i32x4(high0, high1, 0x88);
    step.codes[3] = _mm512_shuffle_i32x4(high0, high1, 0xDD);
    const KScales packed = read_k_scales(data + 4);
    step.scale = spread(packed.scales, data);
    step.bias = _mm512_sub_ps(_mm512_setzero_ps(), spread(packed.minima, data + 2));
  }
};

using Q4KFormat = QKFormat<false>;
using Q5KFormat = QKFormat<true>;

// As nibbles in words. Of the 32 bytes that a pair of groups shares, a nibble and the one 16 bytes later
// become one byte of their group; then lanes 2j and 2j + 1 are brought to hold group j.
struct Q4KNibbleInput {
  static constexpr int kGroup = 32;
  static constexpr Biases kBiases = Biases::per_step;
  static constexpr int lane_group(int lane) { return lane / 2; }
  static constexpr int column(int v, int e) {
    const int lane = e / 2;
    return 32 * lane_group(lane) + 16 * (v % 2) + 8 * (v / 4) + 4 * (lane % 2) + 2 * (e % 2) + v % 4 / 2;
  }
};

struct Q4KNibbles {
  using Input = Q4KNibbleInput;
  static constexpr int64_t kStepBytes = Q4KFormat::kStepBytes;
  static constexpr int64_t kStepScaleBytes = 0;
  static constexpr float kLevels[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  [[gnu::always_inline]] static void load(const std::byte* data, const std::byte*, NibbleStep& step) {
    const __m512i a = _mm512_loadu_si512(data + Q4KFormat::kHeader);
    const __m512i b = _mm512_loadu_si512(data + Q4KFormat::kHeader + 64);
    const __m512i begins = _mm512_shuffle_i32x4(a, b, 0x88), ends = _mm512_shuffle_i32x4(a, b, 0xDD);
    const __m512i low_bits = _mm512_set1_epi8(0x0F);
    constexpr int kSelect = 0xCA;  // low_bits ? second : third operand
    const __m512i even = _mm512_ternarylogic_epi32(low_bits, begins, _mm512_slli_epi16(ends, 4), kSelect);
    const __m512i odd = _mm512_ternarylogic_epi32(low_bits, _mm512_srli_epi16(begins, 4), ends, kSelect);
    step.nibbles[0] = _mm512_unpacklo_epi64(even, odd);
    step.nibbles[1] = _mm512_unpackhi_epi64(even, odd);
    const KScales packed = read_k_scales(data + 4);
    step.scale = Q4KFormat::spread(packed.scales, data);
    step.bias = _mm512_sub_ps(_mm512_setzero_ps(), Q4KFormat::spread(packed.minima, data + 2));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

// GGUF IQ4_NL and IQ4_XS: 32 nibbles that choose among sixteen levels; byte j holds elements j and j + 16.
// IQ4_NL: after an f16 d. IQ4_XS: eight such groups after d, 16 bits with the upper two of each group's
// scale, and 4 bytes with the lower four.
#pragma once

#include "kernels/cpu/matmul_levels-inl.h"
#include "tensor/iq4_values.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr Levels kIq4Levels = make_levels(tensor::kIq4Values, 128);
constexpr int64_t kIq4XsBytes = 136;

struct Iq4NlDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 32 * 18;
    for (int64_t b = 0; b < count / 32; ++b, block += 18, out += 32) {
      decode_split_levels(kIq4Levels, block + 2, f16_value(block), out);
    }
  }
};

// Group j's scale, −32 to 31.
inline int iq4_xs_scale(const std::byte* block, int j) {
  const auto low = static_cast<uint8_t>(block[4 + j / 2]);
  return ((low >> (4 * (j % 2)) & 15) | (load_bytes<uint16_t>(block + 2) >> (2 * j) & 3) << 4) - 32;
}

struct Iq4XsDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 256 * kIq4XsBytes;
    for (int64_t b = 0; b < count / 256; ++b, block += kIq4XsBytes) {
      const float d = f16_value(block);
      for (int j = 0; j < 8; ++j, out += 32) {
        const float scale = d * static_cast<float>(iq4_xs_scale(block, j));
        decode_split_levels(kIq4Levels, block + 8 + 16 * j, scale, out);
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_q4_0-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// As Q4_0, then the codes' levels.
struct Iq4NlFormat : Q4BlockFormat<Biases::none, 128> {
  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte* scales, CodeStep& step) {
    Q4BlockFormat<Biases::none, 128>::expand(data, scales, step);
    to_levels(kIq4Levels, step.codes);
  }
};

struct Iq4NlNibbles : Q4BlockNibbles<Biases::none> {
  static constexpr const auto& kLevels = tensor::kIq4Values;
};

struct Iq4XsFormat {
  using Input = Q4BlockInput<Biases::none, 128>;
  static constexpr int64_t kStepBytes = kIq4XsBytes;
  static constexpr int64_t kStepScaleBytes = 0;

  // The eight groups' scales in the lanes of their groups.
  [[gnu::always_inline]] static __m512i scales(const std::byte* data) {
    static constexpr LaneGroups<Input> kGroups;
    const uint64_t low = _pdep_u64(load_bytes<uint32_t>(data + 4), 0x0F0F0F0F0F0F0F0F);
    const uint64_t high = _pdep_u64(load_bytes<uint16_t>(data + 2), 0x3030303030303030);
    const __m128i lanes =
        _mm_shuffle_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(low | high)), kGroups.load());
    return _mm512_sub_epi32(_mm512_cvtepu8_epi32(lanes), _mm512_set1_epi32(32));
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    expand_levels(kIq4Levels, data + 8, step.codes);
    const __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16(load_bytes<int16_t>(data)));
    step.scale = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scales(data)));
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

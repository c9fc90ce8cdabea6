// MLX affine 4 bit: rows of nibbles, low one first; a scale and a bias per group.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: code · scale + bias.
struct Q4Decoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const int group = weight.format.group;
    const int64_t first = (n * weight.columns + k) / group;
    const std::byte* codes = weight.data + (n * weight.columns + k) / 2;
    for (int64_t g = 0; g < count / group; ++g, codes += group / 2, out += group) {
      const float scale = scale_value(weight.format.scale_type, weight.scales, first + g);
      const float bias = scale_value(weight.format.scale_type, weight.biases, first + g);
      for (int i = 0; i < group; i += kLanes) {
        store(out + i, to_floats(load_nibbles(codes + i / 2)) * scale + bias);
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_nibbles_panel-inl.h"
#include "kernels/cpu/matmul_scales-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Takes a half of each group from the 128 bytes of a step's nibbles, so that a lane sees one group: chunks of
// 16 bytes with 4 or 2 groups, of 8 bytes with 8 groups.
template <int kGroup>
[[gnu::always_inline]] inline void split_groups(__m512i a, __m512i b, __m512i& first, __m512i& second) {
  if constexpr (kGroup == 32) {
    first = _mm512_unpacklo_epi64(a, b);
    second = _mm512_unpackhi_epi64(a, b);
  } else {
    first = _mm512_shuffle_i32x4(a, b, 0x88);
    second = _mm512_shuffle_i32x4(a, b, 0xDD);
  }
}

// The byte of the step that byte `byte` of the first (h = 0) or second (h = 1) vector comes from.
template <int kGroup>
constexpr int split_source(int h, int byte) {
  if constexpr (kGroup == 32) {
    const int chunk = byte / 8;
    return 8 * (chunk % 2 * 8 + chunk / 2 * 2 + h) + byte % 8;
  }
  return 16 * (byte / 16 * 2 + h) + byte % 16;
}

// Low nibbles become codes[0], high ones codes[1].
[[gnu::always_inline]] inline void expand_nibbles(__m512i bytes, __m512i codes[2]) {
  const __m512i low_bits = _mm512_set1_epi8(0x0F);
  codes[0] = _mm512_and_si512(bytes, low_bits);
  codes[1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low_bits);
}

template <int kGroupColumns>
struct Q4Input {
  static constexpr int kGroup = kGroupColumns;
  static constexpr int kZero = 0;
  static constexpr Biases kBiases = Biases::per_row;
  static constexpr int column(int v, int i) { return 2 * split_source<kGroup>(v / 2, i) + v % 2; }
  static constexpr int lane_group(int lane) { return column(0, 4 * lane) / kGroup; }
};

template <int kGroup, class ScaleType>
struct Q4Format {
  using Input = Q4Input<kGroup>;
  using Scale = ScaleType;
  static constexpr int64_t kStepBytes = kStep / 2;
  static constexpr int64_t kStepScaleBytes = kStep / kGroup * Scale::kBytes;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte* scales, CodeStep& step) {
    __m512i first, second;
    split_groups<kGroup>(_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64), first, second);
    expand_nibbles(first, step.codes);
    expand_nibbles(second, step.codes + 2);
    step.scale = Scale::template spread<Input>(scales);
  }
};

// As nibbles in words: nibble j of word e of split vector h.
template <int kGroupColumns>
struct Q4NibbleInput {
  static constexpr int kGroup = kGroupColumns;
  static constexpr Biases kBiases = Biases::per_row;
  static constexpr int column(int v, int e) {
    return 2 * split_source<kGroup>(v / 4, 2 * e + v % 4 / 2) + v % 2;
  }
  static constexpr int lane_group(int lane) { return column(0, 2 * lane) / kGroup; }
};

template <int kGroup, class ScaleType>
struct Q4Nibbles {
  using Input = Q4NibbleInput<kGroup>;
  using Scale = ScaleType;
  static constexpr int64_t kStepBytes = kDotStep / 2;
  static constexpr int64_t kStepScaleBytes = kDotStep / kGroup * Scale::kBytes;
  static constexpr float kLevels[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  [[gnu::always_inline]] static void load(const std::byte* data, const std::byte* scales, NibbleStep& step) {
    split_groups<kGroup>(_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64), step.nibbles[0],
                         step.nibbles[1]);
    step.scale = Scale::template spread<Input>(scales);
  }
};

template <int kGroup, class Scale>
struct Q4Body {
  static MatmulBody of(MatmulPrecision precision) {
    return nibbles_body<Q4Nibbles<kGroup, Scale>, Q4Format<kGroup, Scale>>(precision);
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

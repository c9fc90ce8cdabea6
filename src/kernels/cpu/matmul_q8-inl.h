// MLX affine 8 bit: rows of unsigned bytes; a scale and a bias per group.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: code · scale + bias.
struct Q8Decoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const int group = weight.format.group;
    const int64_t first = (n * weight.columns + k) / group;
    const std::byte* codes = weight.data + n * weight.columns + k;
    for (int64_t g = 0; g < count / group; ++g, codes += group, out += group) {
      const float scale = scale_value(weight.format.scale_type, weight.scales, first + g);
      const float bias = scale_value(weight.format.scale_type, weight.biases, first + g);
      for (int i = 0; i < group; i += kLanes) {
        store(out + i, to_floats(load_bytes_wide(codes + i)) * scale + bias);
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_codes_panel-inl.h"
#include "kernels/cpu/matmul_scales-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Transposes the 256 bytes of a step so that a lane of every vector sees one group only. 4 groups: chunks of
// 16 bytes; 8 and 16 groups: of 4 bytes; 2 groups: halves.
template <int kGroup>
[[gnu::always_inline]] inline void gather_groups(__m512i a, __m512i b, __m512i c, __m512i d, __m512i out[4]) {
  if constexpr (kGroup == 128) {
    out[0] = _mm512_shuffle_i32x4(a, c, 0x44);
    out[1] = _mm512_shuffle_i32x4(a, c, 0xEE);
    out[2] = _mm512_shuffle_i32x4(b, d, 0x44);
    out[3] = _mm512_shuffle_i32x4(b, d, 0xEE);
    return;
  }
  if constexpr (kGroup == 16) {
    const __m512i low0 = _mm512_unpacklo_epi32(a, b), high0 = _mm512_unpackhi_epi32(a, b);
    const __m512i low1 = _mm512_unpacklo_epi32(c, d), high1 = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(low0, low1);
    out[1] = _mm512_unpackhi_epi64(low0, low1);
    out[2] = _mm512_unpacklo_epi64(high0, high1);
    out[3] = _mm512_unpackhi_epi64(high0, high1);
    return;
  }
  const __m512i even0 = _mm512_shuffle_i32x4(a, b, 0x88), even1 = _mm512_shuffle_i32x4(c, d, 0x88);
  const __m512i odd0 = _mm512_shuffle_i32x4(a, b, 0xDD), odd1 = _mm512_shuffle_i32x4(c, d, 0xDD);
  if constexpr (kGroup == 64) {
    out[0] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    out[1] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    out[2] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    out[3] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  } else {
    out[0] = _mm512_unpacklo_epi32(even0, even1);
    out[1] = _mm512_unpackhi_epi32(even0, even1);
    out[2] = _mm512_unpacklo_epi32(odd0, odd1);
    out[3] = _mm512_unpackhi_epi32(odd0, odd1);
  }
}

// The column of byte i of vector v after gather_groups.
template <int kGroup>
constexpr int gathered_column(int v, int i) {
  const int chunk = i / 16, byte = i % 16;
  if constexpr (kGroup == 16) return 64 * (byte / 4) + 16 * chunk + 4 * v + byte % 4;
  if constexpr (kGroup == 32) {
    const int word = byte / 4;
    return 32 * (chunk + word % 2 * 4) + 16 * (v / 2) + 4 * (v % 2 * 2 + word / 2) + byte % 4;
  }
  if constexpr (kGroup == 64) {
    constexpr int kChunk[4] = {0, 2, 1, 3};
    return 64 * chunk + 16 * kChunk[v] + byte;
  }
  return 128 * (chunk / 2) + 64 * (v / 2) + 32 * (v % 2) + 16 * (chunk % 2) + byte;
}

template <int kGroupColumns>
struct Q8Input {
  static constexpr int kGroup = kGroupColumns;
  static constexpr int kZero = 0;
  static constexpr Biases kBiases = Biases::per_row;
  static constexpr int column(int v, int i) { return gathered_column<kGroup>(v, i); }
  static constexpr int lane_group(int lane) { return column(0, 4 * lane) / kGroup; }
};

template <int kGroup, class ScaleType>
struct Q8Format {
  using Input = Q8Input<kGroup>;
  using Scale = ScaleType;
  static constexpr int64_t kStepBytes = kStep;
  static constexpr int64_t kStepScaleBytes = kStep / kGroup * Scale::kBytes;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte* scales, CodeStep& step) {
    gather_groups<kGroup>(_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64),
                          _mm512_loadu_si512(data + 128), _mm512_loadu_si512(data + 192), step.codes);
    step.scale = Scale::template spread<Input>(scales);
  }
};

template <int kGroup, class Scale>
struct Q8Body {
  static MatmulBody of(MatmulPrecision precision) { return codes_body<Q8Format<kGroup, Scale>>(precision); }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

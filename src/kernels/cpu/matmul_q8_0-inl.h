// GGUF Q8_0: blocks of an f16 scale and 32 signed bytes.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: d·q.
struct Q8_0Decoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 32 * 34;
    for (int64_t b = 0; b < count / 32; ++b, block += 34, out += 32) {
      const float d = f16_value(block);
      for (int i = 0; i < 32; i += kLanes) {
        const Words codes = (load_bytes_wide(block + 2 + i) ^ 0x80) - 0x80;  // extends the sign
        store(out + i, d * to_floats(codes));
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

struct Q8_0Input {
  static constexpr int kGroup = 32;
  static constexpr int kZero = 128;  // codes are read as unsigned
  static constexpr Biases kBiases = Biases::none;
  static constexpr int column(int v, int i) { return gathered_column<32>(v, i); }
  static constexpr int lane_group(int lane) { return column(0, 4 * lane) / 32; }
};

// A step is 8 blocks in four pairs. Of a pair (68 bytes) the first 64 bytes hold both scales and the lower
// halves of both blocks, the last 64 bytes the upper halves; two pairs make one vector of halves.
struct Q8_0Shuffle {
  alignas(64) uint8_t lower[64], upper[64];
  alignas(64) uint16_t scale[32];
  constexpr Q8_0Shuffle() : lower(), upper(), scale() {
    for (int i = 0; i < 64; ++i) {
      const int block = i / 16, in_pairs = block / 2 * 64 + block % 2 * 34;
      lower[i] = static_cast<uint8_t>(in_pairs + 2 + i % 16);
      upper[i] = static_cast<uint8_t>(in_pairs + 2 + 16 - 4 + i % 16);
    }
    for (int lane = 0; lane < 16; ++lane) {
      const int block = Q8_0Input::lane_group(lane) % 4;
      scale[lane] = static_cast<uint16_t>(block / 2 * 32 + block % 2 * 17);
    }
  }
};
constexpr Q8_0Shuffle kQ8_0Shuffle;

constexpr __mmask32 lanes_of_upper_blocks() {
  uint32_t mask = 0;
  for (int lane = 0; lane < 16; ++lane) mask |= (Q8_0Input::lane_group(lane) >= 4 ? 1u : 0u) << lane;
  return mask;
}

struct Q8_0Format {
  using Input = Q8_0Input;
  static constexpr int64_t kStepBytes = 8 * 34;
  static constexpr int64_t kStepScaleBytes = 0;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    __m512i begin[4], end[4];
    for (int pair = 0; pair < 4; ++pair) {
      begin[pair] = _mm512_loadu_si512(data + 68 * pair);
      end[pair] = _mm512_loadu_si512(data + 68 * pair + 4);
    }
    const __m512i lower = _mm512_load_si512(kQ8_0Shuffle.lower);
    const __m512i upper = _mm512_load_si512(kQ8_0Shuffle.upper);
    const __m512i lower0 = _mm512_permutex2var_epi8(begin[0], lower, begin[1]);
    const __m512i lower1 = _mm512_permutex2var_epi8(begin[2], lower, begin[3]);
    const __m512i upper0 = _mm512_permutex2var_epi8(end[0], upper, end[1]);
    const __m512i upper1 = _mm512_permutex2var_epi8(end[2], upper, end[3]);
    const __m512i sign = _mm512_set1_epi8(-128);
    step.codes[0] = _mm512_xor_si512(_mm512_unpacklo_epi32(lower0, lower1), sign);
    step.codes[1] = _mm512_xor_si512(_mm512_unpackhi_epi32(lower0, lower1), sign);
    step.codes[2] = _mm512_xor_si512(_mm512_unpacklo_epi32(upper0, upper1), sign);
    step.codes[3] = _mm512_xor_si512(_mm512_unpackhi_epi32(upper0, upper1), sign);

    const __m512i scale = _mm512_load_si512(kQ8_0Shuffle.scale);
    const __m512i halves =
        _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(begin[0], scale, begin[1]), lanes_of_upper_blocks(),
                              _mm512_permutex2var_epi16(begin[2], scale, begin[3]));
    step.scale = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
  }
};

template <>
constexpr int64_t kStreamedRows<Q8_0Format> = 3;

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

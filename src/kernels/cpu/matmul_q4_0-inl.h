// GGUF Q4_0 and Q4_1: blocks of 32 nibbles after their f16 scale (and minimum); byte j holds elements j and
// j + 16.
#pragma once

#include "kernels/cpu/matmul_values-inl.h"
#include "tensor/matrix.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// To fp32, for tiers without integer dot products: d·(q − 8), or d·q + m.
template <bool kMinimum>
struct Q4BlockDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    constexpr int64_t kHeader = kMinimum ? 4 : 2, kBlock = kHeader + 16;
    const std::byte* block = weight.data + (n * weight.columns + k) / 32 * kBlock;
    for (int64_t b = 0; b < count / 32; ++b, block += kBlock, out += 32) {
      const float d = f16_value(block), m = kMinimum ? f16_value(block + 2) : 0;
      for (int i = 0; i < 16; i += kLanes) {
        const Words codes = load_bytes_wide(block + kHeader + i);
        const Floats low = to_floats(codes & 15), high = to_floats(codes >> 4);
        store(out + i, kMinimum ? d * low + m : d * (low - 8.0f));
        store(out + i + 16, kMinimum ? d * high + m : d * (high - 8.0f));
      }
    }
  }
};
using Q4_0Decoder = Q4BlockDecoder<false>;
using Q4_1Decoder = Q4BlockDecoder<true>;

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_q4-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

template <Biases kBlockBiases, int kZeroCode>
struct Q4BlockInput {
  static constexpr int kGroup = 32;
  static constexpr int kZero = kZeroCode;
  static constexpr Biases kBiases = kBlockBiases;
  static constexpr int column(int v, int i) {
    const int byte = split_source<32>(v / 2, i);  // of the 8 × 16 bytes of nibbles
    return byte / 16 * 32 + byte % 16 + v % 2 * 16;
  }
  static constexpr int lane_group(int lane) { return column(0, 4 * lane) / 32; }
};

// A step is eight blocks, read as two pairs of 64 bytes: the first at 0 and 64, the second at kSecond and at
// the step's end. (For Q4_0 the middle two are one load.) Picks the nibbles of four blocks out of a pair, and
// a 16-bit field of each block into the lanes of its group out of the first halves of both pairs.
template <int kBlockBytes, int kHeaderBytes>
struct Q4BlockShuffle {
  static constexpr int kSecond = kBlockBytes == 18 ? 64 : 4 * kBlockBytes;
  static constexpr int kEnd = 8 * kBlockBytes - 64;
  alignas(64) uint8_t nibbles[2][64];
  alignas(64) uint16_t field[2][32];

  constexpr Q4BlockShuffle() : nibbles(), field() {
    for (int i = 0; i < 64; ++i) {
      const int source = i / 16 * kBlockBytes + kHeaderBytes + i % 16;
      nibbles[0][i] = static_cast<uint8_t>(source);
      const int second = source + 4 * kBlockBytes;
      nibbles[1][i] = static_cast<uint8_t>(second - kSecond < 64 ? second - kSecond : 64 + second - kEnd);
    }
    for (int f = 0; f < 2; ++f) {
      for (int lane = 0; lane < 16; ++lane) {
        const int block = Q4BlockInput<Biases::none, 0>::lane_group(lane);
        const int source = block * kBlockBytes / 2 + f;
        field[f][lane] = static_cast<uint16_t>(block < 4 ? source : 32 + source - kSecond / 2);
      }
    }
  }
};

template <Biases kBlockBiases, int kZeroCode>
struct Q4BlockFormat {
  using Input = Q4BlockInput<kBlockBiases, kZeroCode>;
  static constexpr int kHeaderBytes = kBlockBiases == Biases::none ? 2 : 4;
  static constexpr int64_t kStepBytes = 8 * (kHeaderBytes + 16);
  static constexpr int64_t kStepScaleBytes = 0;
  static constexpr Q4BlockShuffle<kHeaderBytes + 16, kHeaderBytes> kShuffle{};

  // The nibbles of the step's blocks, halves of blocks apart.
  [[gnu::always_inline]] static void gather(const std::byte* data, __m512i begin0, __m512i begin1,
                                            __m512i& first, __m512i& second) {
    const __m512i end0 = _mm512_loadu_si512(data + 64), end1 = _mm512_loadu_si512(data + kShuffle.kEnd);
    split_groups<32>(_mm512_permutex2var_epi8(begin0, _mm512_load_si512(kShuffle.nibbles[0]), end0),
                     _mm512_permutex2var_epi8(begin1, _mm512_load_si512(kShuffle.nibbles[1]), end1), first,
                     second);
  }

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte*, CodeStep& step) {
    const __m512i begin0 = _mm512_loadu_si512(data), begin1 = _mm512_loadu_si512(data + kShuffle.kSecond);
    __m512i first, second;
    gather(data, begin0, begin1, first, second);
    expand_nibbles(first, step.codes);
    expand_nibbles(second, step.codes + 2);
    step.scale = field<0>(begin0, begin1);
    if (kBlockBiases != Biases::none) step.bias = field<1>(begin0, begin1);
  }

  template <int kField>
  [[gnu::always_inline]] static __m512 field(__m512i begin0, __m512i begin1) {
    const __m512i index = _mm512_load_si512(kShuffle.field[kField]);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutex2var_epi16(begin0, index, begin1)));
  }
};

using Q4_0Format = Q4BlockFormat<Biases::none, 8>;
using Q4_1Format = Q4BlockFormat<Biases::per_step, 0>;

// As nibbles in words.
template <Biases kBlockBiases>
struct Q4BlockNibbleInput {
  static constexpr int kGroup = 32;
  static constexpr Biases kBiases = kBlockBiases;
  static constexpr int column(int v, int e) {
    const int byte = split_source<32>(v / 4, 2 * e + v % 4 / 2);
    return byte / 16 * 32 + byte % 16 + v % 2 * 16;
  }
  static constexpr int lane_group(int lane) { return column(0, 2 * lane) / 32; }
};

template <Biases kBlockBiases>
struct Q4BlockNibbles {
  using Input = Q4BlockNibbleInput<kBlockBiases>;
  using Codes = Q4BlockFormat<kBlockBiases, 0>;
  static constexpr int64_t kStepBytes = Codes::kStepBytes;
  static constexpr int64_t kStepScaleBytes = 0;

  [[gnu::always_inline]] static void load(const std::byte* data, const std::byte*, NibbleStep& step) {
    const __m512i begin0 = _mm512_loadu_si512(data),
                  begin1 = _mm512_loadu_si512(data + Codes::kShuffle.kSecond);
    Codes::gather(data, begin0, begin1, step.nibbles[0], step.nibbles[1]);
    step.scale = Codes::template field<0>(begin0, begin1);
    if (kBlockBiases != Biases::none) step.bias = Codes::template field<1>(begin0, begin1);
  }
};

struct Q4_0Nibbles : Q4BlockNibbles<Biases::none> {
  static constexpr float kLevels[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
};
struct Q4_1Nibbles : Q4BlockNibbles<Biases::per_step> {
  static constexpr float kLevels[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

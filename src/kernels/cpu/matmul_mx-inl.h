// Microscaling formats: e2m1 codes under e8m0 scales (MLX's mxfp4, GGUF's MXFP4) or e4m3 ones (MLX's nvfp4),
// and e4m3 codes under e8m0 scales (MLX's mxfp8). Twice an e2m1 value is a small integer.
#pragma once

#include "kernels/cpu/matmul_float-inl.h"
#include "kernels/cpu/matmul_levels-inl.h"
#include "tensor/matrix.h"
#include "tensor/small_float.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr Levels kE2M1Levels = make_levels(tensor::kTwiceE2M1, 12);

// Half of 2^(bits − 127), of infinity for 255.
inline float half_e8m0(std::byte bits) {
  const auto exponent = static_cast<uint32_t>(bits);
  return 0.5f * __builtin_bit_cast(float, exponent == 0 ? 0x400000u : exponent << 23);
}

// kLanes values as tensor::e4m3_to_f32 reads them.
[[gnu::always_inline]] inline Floats e4m3_lanes(const std::byte* from) {
  const Words bits = load_bytes_wide(from), magnitude = bits & 0x7F;
  const Floats value = reinterpret_cast<Floats>(magnitude << 20) * 0x1p120f;
  const Words finite = reinterpret_cast<Words>(value) | (bits & 0x80) << 24;
  return reinterpret_cast<Floats>(magnitude == 0x7F ? Words{} + 0x7FC00000 : finite);
}

inline float half_e4m3(std::byte bits) {
  const auto code = static_cast<uint32_t>(bits), magnitude = code & 0x7F;
  if (magnitude == 0x7F) return __builtin_nanf("");
  const float value = __builtin_bit_cast(float, magnitude << 20) * 0x1p119f;
  return (code & 0x80) != 0 ? -value : value;
}

struct Mxfp4BlockDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* block = weight.data + (n * weight.columns + k) / 32 * 17;
    for (int64_t b = 0; b < count / 32; ++b, block += 17, out += 32) {
      decode_split_levels(kE2M1Levels, block + 1, half_block_scale(block[0]), out);
    }
  }

  // GGUF has no infinite scale.
  static float half_block_scale(std::byte bits) {
    return bits == std::byte{0xFF} ? 0x1p127f : half_e8m0(bits);
  }
};

template <int kGroup, float (*kHalfScale)(std::byte)>
struct E2M1Decoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const int64_t first = n * weight.columns + k;
    for (int64_t i = 0; i < count; i += 16) {
      decode_paired_levels(kE2M1Levels, weight.data + (first + i) / 2,
                           kHalfScale(weight.scales[(first + i) / kGroup]), out + i);
    }
  }
};
using Mxfp4Decoder = E2M1Decoder<32, half_e8m0>;
using Nvfp4Decoder = E2M1Decoder<16, half_e4m3>;

struct Mxfp8Decoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const int64_t first = n * weight.columns + k;
    for (int64_t i = 0; i < count; i += 32) {
      const float scale = 2 * half_e8m0(weight.scales[(first + i) / 32]);
      for (int j = 0; j < 32; j += kLanes) {
        store(out + i + j, scale * e4m3_lanes(weight.data + first + i + j));
      }
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#if defined(__AVX512F__)

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct Mxfp4BlockUnpacker {
  static constexpr int kGroup = 32;

  static void unpack(UnpackedRow row) {
    for (int64_t g = 0; g < row.columns / 32; ++g, row.data += 17) {
      const float half = Mxfp4BlockDecoder::half_block_scale(row.data[0]);
      unpack_levels(kE2M1Levels, split_nibbles(row.data + 1), half, row, g);
    }
  }
};

struct Mxfp4Input {
  static constexpr int kGroup = 32;
  static constexpr int kZero = 12;
  static constexpr Biases kBiases = Biases::none;
  static constexpr int column(int v, int i) { return Q4Input<32>::column(v, i); }
  static constexpr int lane_group(int lane) { return Q4Input<32>::lane_group(lane); }
};

struct Mxfp4Format {
  using Input = Mxfp4Input;
  static constexpr int64_t kStepBytes = kStep / 2;
  static constexpr int64_t kStepScaleBytes = kStep / 32;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte* scales, CodeStep& step) {
    static constexpr LaneGroups<Input> kGroups;
    expand_levels(kE2M1Levels, data, step.codes);
    const __m128i lanes =
        _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales)), kGroups.load());
    const __m512i exponents = _mm512_cvtepu8_epi32(lanes);
    // 2^−127, of exponent 0, is no normal number.
    const __m512i bits =
        _mm512_mask_mov_epi32(_mm512_slli_epi32(exponents, 23), _mm512_testn_epi32_mask(exponents, exponents),
                              _mm512_set1_epi32(0x400000));
    step.scale = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
  }
};

struct Nvfp4Unpacker {
  static constexpr int kGroup = 16;

  static void unpack(UnpackedRow row) {
    const int64_t groups = row.columns / 16;
    int64_t g = 0;
    for (; g + 1 < groups; g += 2) {
      store_codes(row.codes + 16 * g, level_codes(kE2M1Levels, pair_nibbles(row.data + 8 * g)));
    }
    if (g < groups) {
      std::byte last[16] = {};
      std::memcpy(last, row.data + 8 * g, 8);
      const __m256i codes = level_codes(kE2M1Levels, pair_nibbles(last));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row.codes + 16 * g), _mm256_castsi256_si128(codes));
    }
    for (g = 0; g + kLanes <= groups; g += kLanes) {
      const Floats half = 0.5f * e4m3_lanes(row.data_scales + g);
      store(row.scales + g, half);
      store(row.biases + g, -12.0f * half);
    }
    for (; g < groups; ++g) {
      row.scales[g] = half_e4m3(row.data_scales[g]);
      row.biases[g] = -12 * row.scales[g];
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

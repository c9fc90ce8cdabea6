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

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct Iq4NlUnpacker {
  static constexpr int kGroup = 32;

  static void unpack(UnpackedRow row) {
    for (int64_t g = 0; g < row.columns / 32; ++g, row.data += 18) {
      unpack_levels(kIq4Levels, split_nibbles(row.data + 2), f16_value(row.data), row, g);
    }
  }
};

struct Iq4XsUnpacker {
  static constexpr int kGroup = 32;

  static void unpack(UnpackedRow row) {
    for (int64_t g = 0; g < row.columns / 32; ++g) {
      const int j = static_cast<int>(g % 8);
      const float scale = f16_value(row.data) * static_cast<float>(iq4_xs_scale(row.data, j));
      unpack_levels(kIq4Levels, split_nibbles(row.data + 8 + 16 * j), scale, row, g);
      if (j == 7) row.data += kIq4XsBytes;
    }
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

// GGUF MXFP4: 32 e2m1 values under an e8m0 scale, which comes first.
#include <array>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"
#include "tensor/small_float.h"

namespace rafter::tensor::codec {
namespace {

// Half of the scale, for codes of twice their value: 2^(exponent − 128).
float half_scale(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x200000u << exponent : (exponent - 1u) << 23);
}

// The code whose value is nearest, the first of equals.
uint8_t nearest(float value, float half) {
  float best = INFINITY;
  uint8_t code = 0;
  for (uint8_t i = 0; i < 16; ++i) {
    const float error = std::fabs(half * static_cast<float>(kTwiceE2M1[i]) - value);
    if (error < best) {
      best = error;
      code = i;
    }
  }
  return code;
}

}  // namespace

void decode_mxfp4_block(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Mxfp4Block)) {
    const Mxfp4Block block = load_unaligned<Mxfp4Block>(row);
    const float half = half_scale(block.exponent);
    for (size_t j = 0; j < 16; ++j) {
      out[start + j] = half * static_cast<float>(kTwiceE2M1[block.codes[j] & 15]);
      out[start + j + 16] = half * static_cast<float>(kTwiceE2M1[block.codes[j] >> 4]);
    }
  }
}

void encode_mxfp4_block(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Mxfp4Block)) {
    const auto group = values.subspan(start, 32);
    float largest = 0;
    for (float value : group) largest = std::max(largest, std::fabs(value));
    Mxfp4Block block{};
    if (largest > 0) {
      block.exponent = static_cast<uint8_t>(clamp_code(std::floor(std::log2(largest)) - 2 + 127, 0, 254));
    }
    const float half = half_scale(block.exponent);
    for (size_t j = 0; j < 16; ++j) {
      block.codes[j] = static_cast<uint8_t>(nearest(group[j], half) | nearest(group[j + 16], half) << 4);
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

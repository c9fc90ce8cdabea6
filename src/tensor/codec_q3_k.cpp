// GGUF Q3_K: 256 values d·(scale − 32)·(q − 4), q in 0..7, groups of 16.
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {
namespace {

int read_scale(const uint8_t scales[12], size_t g) {
  const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
  return (low | (scales[8 + g % 4] >> 2 * (g / 4) & 3) << 4) - 32;
}

// Adds group g's scale, −32 to 31, to 12 bytes that were zero.
void write_scale(int scale, uint8_t scales[12], size_t g) {
  const int stored = scale + 32;
  scales[g % 8] |= static_cast<uint8_t>(g < 8 ? stored & 15 : (stored & 15) << 4);
  scales[8 + g % 4] |= static_cast<uint8_t>(stored >> 4 << 2 * (g / 4));
}

// The value of largest magnitude of each group gets code −4, the largest scale −32.
void encode_block(std::span<const float> values, Q3_KBlock& block) {
  float scales[16], largest = 0;
  for (size_t g = 0; g < 16; ++g) {
    float edge = 0;
    for (float value : values.subspan(16 * g, 16)) {
      if (std::fabs(value) > std::fabs(edge)) edge = value;
    }
    scales[g] = edge / -4;
    if (std::fabs(scales[g]) > std::fabs(largest)) largest = scales[g];
  }
  block.d = f32_to_f16(largest / -32);
  const float d = f16_to_f32(block.d);
  for (size_t g = 0; g < 16; ++g) {
    const int scale = d != 0 ? clamp_code(std::rint(scales[g] / d), -32, 31) : 0;
    write_scale(scale, block.scales, g);
    const float step = d * static_cast<float>(scale);
    for (size_t e = 16 * g; e < 16 * g + 16; ++e) {
      const int code = (step != 0 ? clamp_code(std::rint(values[e] / step), -4, 3) : 0) + 4;
      block.codes[32 * (e / 128) + e % 32] |= static_cast<uint8_t>((code & 3) << 2 * (e % 128 / 32));
      block.high[e % 32] |= static_cast<uint8_t>(code >> 2 << e / 32);
    }
  }
}

}  // namespace

void decode_q3_k(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 256, row += sizeof(Q3_KBlock)) {
    const Q3_KBlock block = load_unaligned<Q3_KBlock>(row);
    const float d = f16_to_f32(block.d);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(read_scale(block.scales, g));
      const uint8_t* codes = block.codes + 32 * (g / 8) + 16 * (g % 2);
      const uint8_t* high = block.high + 16 * (g % 2);
      const size_t shift = 2 * (g % 8 / 2), bit = g / 2;
      for (size_t l = 0; l < 16; ++l) {
        const int code = (codes[l] >> shift & 3) | (high[l] >> bit & 1) << 2;
        out[start + 16 * g + l] = scale * static_cast<float>(code - 4);
      }
    }
  }
}

void encode_q3_k(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 256, row += sizeof(Q3_KBlock)) {
    Q3_KBlock block{};
    encode_block(values.subspan(start, 256), block);
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

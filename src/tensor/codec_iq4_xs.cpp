// GGUF IQ4_XS: 256 values d·(scale − 32)·T[q], q in 0..15, groups of 32.
#include "tensor/blocks.h"
#include "tensor/codec_formats.h"
#include "tensor/iq4_values.h"

namespace rafter::tensor::codec {

void decode_iq4_xs(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 256, row += sizeof(Iq4XsBlock)) {
    const Iq4XsBlock block = load_unaligned<Iq4XsBlock>(row);
    const float d = f16_to_f32(block.d);
    for (size_t j = 0; j < 8; ++j) {
      const int scale = (block.scales[j / 2] >> 4 * (j % 2) & 15) | (block.high >> 2 * j & 3) << 4;
      const float step = d * static_cast<float>(scale - 32);
      for (size_t l = 0; l < 16; ++l) {
        const uint8_t codes = block.codes[16 * j + l];
        out[start + 32 * j + l] = step * static_cast<float>(kIq4Values[codes & 15]);
        out[start + 32 * j + l + 16] = step * static_cast<float>(kIq4Values[codes >> 4]);
      }
    }
  }
}

// The value of largest magnitude of each group gets level −127, the largest scale −32.
void encode_iq4_xs(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 256, row += sizeof(Iq4XsBlock)) {
    float scales[8], largest = 0;
    for (size_t j = 0; j < 8; ++j) {
      float edge = 0;
      for (float value : values.subspan(start + 32 * j, 32)) {
        if (std::fabs(value) > std::fabs(edge)) edge = value;
      }
      scales[j] = edge / -127;
      if (std::fabs(scales[j]) > std::fabs(largest)) largest = scales[j];
    }
    Iq4XsBlock block{};
    block.d = f32_to_f16(largest / -32);
    const float d = f16_to_f32(block.d);
    for (size_t j = 0; j < 8; ++j) {
      const int scale = d != 0 ? clamp_code(std::rint(scales[j] / d), -32, 31) : 0;
      block.scales[j / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << 4 * (j % 2));
      block.high |= static_cast<uint16_t>((scale + 32) >> 4 << 2 * j);
      const float step = d * static_cast<float>(scale), inverse = step != 0 ? 1 / step : 0;
      for (size_t l = 0; l < 16; ++l) {
        const size_t e = start + 32 * j + l;
        block.codes[16 * j + l] = static_cast<uint8_t>(nearest_iq4(values[e] * inverse) |
                                                       nearest_iq4(values[e + 16] * inverse) << 4);
      }
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

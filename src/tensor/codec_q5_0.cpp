// GGUF Q5_0: 32 values d·(q − 16), q in 0..31.
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_q5_0(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Q5_0Block)) {
    const Q5_0Block block = load_unaligned<Q5_0Block>(row);
    const float d = f16_to_f32(block.d);
    const uint32_t high = load_unaligned<uint32_t>(block.high);
    for (size_t j = 0; j < 16; ++j) {
      const int low = (block.codes[j] & 15) | static_cast<int>(high >> j << 4 & 16);
      const int top = (block.codes[j] >> 4) | static_cast<int>(high >> (j + 16) << 4 & 16);
      out[start + j] = d * static_cast<float>(low - 16);
      out[start + j + 16] = d * static_cast<float>(top - 16);
    }
  }
}

// The value of largest magnitude gets code 0; codes come from d before it is rounded to half.
void encode_q5_0(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Q5_0Block)) {
    const auto group = values.subspan(start, 32);
    float largest = 0;
    for (float value : group) {
      if (std::fabs(value) > std::fabs(largest)) largest = value;
    }
    const float d = largest / -16;
    const float inverse = d != 0 ? 1 / d : 0;
    const auto code = [&](float value) {
      const float scaled = value * inverse;
      return static_cast<uint32_t>(clamp_code(scaled + 16.5f, 0, 31));
    };
    Q5_0Block block{};
    block.d = f32_to_f16(d);
    uint32_t high = 0;
    for (size_t j = 0; j < 16; ++j) {
      const uint32_t a = code(group[j]), b = code(group[j + 16]);
      block.codes[j] = static_cast<uint8_t>((a & 15) | (b & 15) << 4);
      high |= a >> 4 << j | b >> 4 << (j + 16);
    }
    std::memcpy(block.high, &high, sizeof(high));
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

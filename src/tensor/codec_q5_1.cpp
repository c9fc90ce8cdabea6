// GGUF Q5_1: 32 values d·q + m, q in 0..31.
#include <algorithm>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_q5_1(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Q5_1Block)) {
    const Q5_1Block block = load_unaligned<Q5_1Block>(row);
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    const uint32_t high = load_unaligned<uint32_t>(block.high);
    for (size_t j = 0; j < 16; ++j) {
      const int low = (block.codes[j] & 15) | static_cast<int>(high >> j << 4 & 16);
      const int top = (block.codes[j] >> 4) | static_cast<int>(high >> (j + 16) << 4 & 16);
      out[start + j] = d * static_cast<float>(low) + m;
      out[start + j + 16] = d * static_cast<float>(top) + m;
    }
  }
}

// Codes come from d and m before they are rounded to half, halves upwards.
void encode_q5_1(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Q5_1Block)) {
    const auto group = values.subspan(start, 32);
    const auto [low, high_value] = std::minmax_element(group.begin(), group.end());
    const float m = *low, d = (*high_value - *low) / 31;
    const float inverse = d != 0 ? 1 / d : 0;
    const auto code = [&](float value) {
      return static_cast<uint32_t>(clamp_code((value - m) * inverse + 0.5f, 0, 31));
    };
    Q5_1Block block{};
    block.d = f32_to_f16(d);
    block.m = f32_to_f16(m);
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

// GGUF Q4_1: 32 values d·q + m, q in 0..15.
#include <algorithm>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_q4_1(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Q4_1Block)) {
    const Q4_1Block block = load_unaligned<Q4_1Block>(row);
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (size_t j = 0; j < 16; ++j) {
      out[start + j] = d * static_cast<float>(block.codes[j] & 15) + m;
      out[start + j + 16] = d * static_cast<float>(block.codes[j] >> 4) + m;
    }
  }
}

// Codes come from d and m before they are rounded to half, halves upwards.
void encode_q4_1(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Q4_1Block)) {
    const auto group = values.subspan(start, 32);
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    const float m = *low, d = (*high - *low) / 15;
    const float inverse = d != 0 ? 1 / d : 0;
    const auto code = [&](float value) { return clamp_code((value - m) * inverse + 0.5f, 0, 15); };
    Q4_1Block block{};
    block.d = f32_to_f16(d);
    block.m = f32_to_f16(m);
    for (size_t j = 0; j < 16; ++j) {
      block.codes[j] = static_cast<uint8_t>(code(group[j]) | code(group[j + 16]) << 4);
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

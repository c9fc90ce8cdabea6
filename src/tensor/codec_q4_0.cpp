// GGUF Q4_0: 32 values d·(q − 8), q in 0..15.
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_q4_0(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Q4_0Block)) {
    const Q4_0Block block = load_unaligned<Q4_0Block>(row);
    const float d = f16_to_f32(block.d);
    for (size_t j = 0; j < 16; ++j) {
      out[start + j] = d * static_cast<float>((block.codes[j] & 15) - 8);
      out[start + j + 16] = d * static_cast<float>((block.codes[j] >> 4) - 8);
    }
  }
}

// The value of largest magnitude gets code 0. Codes come from d before it is rounded to half; the product and
// sum are those of a fused multiply-add, as the reference quantizer's are on every machine that has one.
void encode_q4_0(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Q4_0Block)) {
    const auto group = values.subspan(start, 32);
    float largest = 0;
    for (float value : group) {
      if (std::fabs(value) > std::fabs(largest)) largest = value;
    }
    const float d = largest / -8;
    const float inverse = d != 0 ? 1 / d : 0;
    const auto code = [&](float value) {
      return clamp_code(static_cast<double>(value) * inverse + 8.5, 0, 15);
    };
    Q4_0Block block{};
    block.d = f32_to_f16(d);
    for (size_t j = 0; j < 16; ++j) {
      block.codes[j] = static_cast<uint8_t>(code(group[j]) | code(group[j + 16]) << 4);
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

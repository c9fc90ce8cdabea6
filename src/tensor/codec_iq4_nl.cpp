// GGUF IQ4_NL: 32 values d·T[q], q in 0..15.
#include "tensor/blocks.h"
#include "tensor/codec_formats.h"
#include "tensor/iq4_values.h"

namespace rafter::tensor::codec {

void decode_iq4_nl(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Iq4NlBlock)) {
    const Iq4NlBlock block = load_unaligned<Iq4NlBlock>(row);
    const float d = f16_to_f32(block.d);
    for (size_t j = 0; j < 16; ++j) {
      out[start + j] = d * static_cast<float>(kIq4Values[block.codes[j] & 15]);
      out[start + j + 16] = d * static_cast<float>(kIq4Values[block.codes[j] >> 4]);
    }
  }
}

// The value of largest magnitude gets level −127.
void encode_iq4_nl(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Iq4NlBlock)) {
    const auto group = values.subspan(start, 32);
    float edge = 0;
    for (float value : group) {
      if (std::fabs(value) > std::fabs(edge)) edge = value;
    }
    Iq4NlBlock block{};
    block.d = f32_to_f16(edge / -127);
    const float d = f16_to_f32(block.d), inverse = d != 0 ? 1 / d : 0;
    for (size_t j = 0; j < 16; ++j) {
      block.codes[j] =
          static_cast<uint8_t>(nearest_iq4(group[j] * inverse) | nearest_iq4(group[j + 16] * inverse) << 4);
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

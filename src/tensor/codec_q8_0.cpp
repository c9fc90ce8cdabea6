// GGUF Q8_0: 32 values d·q, q in −127..127 (−128 is legal in a file).
#include <algorithm>
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_q8_0(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 32, row += sizeof(Q8_0Block)) {
    const Q8_0Block block = load_unaligned<Q8_0Block>(row);
    const float d = f16_to_f32(block.d);
    for (size_t j = 0; j < 32; ++j) out[start + j] = d * static_cast<float>(block.codes[j]);
  }
}

// Codes come from d before it is rounded to half; halves away from zero.
void encode_q8_0(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 32, row += sizeof(Q8_0Block)) {
    const auto group = values.subspan(start, 32);
    float largest = 0;
    for (float value : group) largest = std::max(largest, std::fabs(value));
    const float d = largest / 127;
    const float inverse = d != 0 ? 1 / d : 0;
    Q8_0Block block{};
    block.d = f32_to_f16(d);
    for (size_t j = 0; j < 32; ++j) {
      block.codes[j] = static_cast<int8_t>(clamp_code(std::round(group[j] * inverse), -128, 127));
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

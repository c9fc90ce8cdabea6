// GGUF Q2_K: 256 values d·scale·q − dmin·minimum, q in 0..3, groups of 16.
#include "tensor/blocks.h"
#include "tensor/k_scales.h"

namespace rafter::tensor::codec {

void decode_q2_k(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 256, row += sizeof(Q2_KBlock)) {
    const Q2_KBlock block = load_unaligned<Q2_KBlock>(row);
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (size_t g = 0; g < 16; ++g) {
      // Both products are exact in fp32 (11 by 4 bits, then 2 more).
      const float scale = d * static_cast<float>(block.scales[g] & 15);
      const float minimum = dmin * static_cast<float>(block.scales[g] >> 4);
      const uint8_t* codes = block.codes + 32 * (g / 8) + 16 * (g % 2);
      const size_t shift = 2 * (g % 8 / 2);
      for (size_t l = 0; l < 16; ++l) {
        out[start + 16 * g + l] = scale * static_cast<float>(codes[l] >> shift & 3) - minimum;
      }
    }
  }
}

void encode_q2_k(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 256, row += sizeof(Q2_KBlock)) {
    const KBlockCodes made = encode_k_block<16, 3, 15>(values.subspan(start, 256));
    Q2_KBlock block{};
    block.d = made.d;
    block.dmin = made.dmin;
    for (size_t g = 0; g < 16; ++g) {
      block.scales[g] = static_cast<uint8_t>(made.scales[g].scale | made.scales[g].minimum << 4);
    }
    for (size_t e = 0; e < 256; ++e) {
      block.codes[32 * (e / 128) + e % 32] |= static_cast<uint8_t>(made.codes[e] << 2 * (e % 128 / 32));
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

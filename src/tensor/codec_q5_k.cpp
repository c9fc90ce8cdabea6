// GGUF Q5_K: 256 values d·scale·q − dmin·minimum, q in 0..31, groups of 32.
#include "tensor/blocks.h"
#include "tensor/k_scales.h"

namespace rafter::tensor::codec {

void decode_q5_k(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += 256, row += sizeof(Q5_KBlock)) {
    const Q5_KBlock block = load_unaligned<Q5_KBlock>(row);
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (size_t j = 0; j < 8; ++j) {
      const KScale packed = read_k_scale(block.scales, j);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const uint8_t* codes = block.codes + 32 * (j / 2);
      const size_t shift = 4 * (j % 2);
      for (size_t l = 0; l < 32; ++l) {
        const int code = (codes[l] >> shift & 15) | (block.high[l] >> j & 1) << 4;
        out[start + 32 * j + l] = scale * static_cast<float>(code) - minimum;
      }
    }
  }
}

void encode_q5_k(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += 256, row += sizeof(Q5_KBlock)) {
    const KBlockCodes made = encode_k_block<32, 31, 63>(values.subspan(start, 256));
    Q5_KBlock block{};
    block.d = made.d;
    block.dmin = made.dmin;
    for (size_t j = 0; j < 8; ++j) write_k_scale(made.scales[j], block.scales, j);
    for (size_t e = 0; e < 256; ++e) {
      block.codes[32 * (e / 64) + e % 32] |= static_cast<uint8_t>((made.codes[e] & 15) << 4 * (e / 32 % 2));
      block.high[e % 32] |= static_cast<uint8_t>(made.codes[e] >> 4 << e / 32);
    }
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

// GGUF Q6_K: 256 values d·scales[e / 16]·(q − 32), q in 0..63.
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {
namespace {

constexpr size_t kBlock = 256, kGroup = 16;

// Where element e of a block keeps its two parts.
struct Q6Place {
  size_t low_byte, high_byte;
  int low_shift, high_shift;
};

Q6Place place_of(size_t e) {
  const size_t half = e / 128, strip = e % 128 / 32, lane = e % 32;
  return {64 * half + 32 * (strip % 2) + lane, 32 * half + lane, static_cast<int>(4 * (strip / 2)),
          static_cast<int>(2 * strip)};
}

// The scale of 16 values. Candidates put the value of largest magnitude near code −32; each is refined to the
// least-squares scale of the codes it gives, values weighted by their squares, and the best fit wins.
float choose_scale(std::span<const float> values) {
  float largest = 0;
  for (float value : values) {
    if (std::fabs(value) > std::fabs(largest)) largest = value;
  }
  if (std::fabs(largest) < 1e-15f) return 0;
  float best_scale = 0, best_gain = -1;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(32 + 0.1f * static_cast<float>(step)) / largest;
    float product = 0, energy = 0;
    for (float value : values) {
      const float code = static_cast<float>(clamp_code(std::rint(value * inverse), -32, 31));
      product += value * value * value * code;
      energy += value * value * code * code;
    }
    const float gain = energy > 0 ? product * product / energy : 0;
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = energy > 0 ? product / energy : 1 / inverse;
    }
  }
  return best_scale;
}

void encode_block(std::span<const float> values, Q6_KBlock& block) {
  float scales[kBlock / kGroup], largest = 0;
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    scales[g] = choose_scale(values.subspan(g * kGroup, kGroup));
    if (std::fabs(scales[g]) > std::fabs(largest)) largest = scales[g];
  }
  block.d = f32_to_f16(largest / -128);
  const float d = f16_to_f32(block.d);
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    block.scales[g] = static_cast<int8_t>(d != 0 ? clamp_code(std::rint(scales[g] / d), -128, 127) : 0);
  }
  for (size_t e = 0; e < kBlock; ++e) {
    const float step = d * static_cast<float>(block.scales[e / kGroup]);
    const int code = step != 0 ? clamp_code(std::rint(values[e] / step), -32, 31) + 32 : 32;
    const Q6Place place = place_of(e);
    block.low[place.low_byte] |= static_cast<uint8_t>((code & 15) << place.low_shift);
    block.high[place.high_byte] |= static_cast<uint8_t>((code >> 4) << place.high_shift);
  }
}

}  // namespace

void decode_q6_k(const std::byte* row, std::span<float> out) {
  for (size_t start = 0; start < out.size(); start += kBlock, row += sizeof(Q6_KBlock)) {
    const Q6_KBlock block = load_unaligned<Q6_KBlock>(row);
    const float d = f16_to_f32(block.d);
    for (size_t e = 0; e < kBlock; ++e) {
      const Q6Place place = place_of(e);
      const int code = (block.low[place.low_byte] >> place.low_shift & 15) +
                       16 * (block.high[place.high_byte] >> place.high_shift & 3);
      // d·scale is exact in fp32 (11 by 8 bits), so only the last product rounds.
      out[start + e] = d * static_cast<float>(block.scales[e / kGroup]) * static_cast<float>(code - 32);
    }
  }
}

void encode_q6_k(std::span<const float> values, std::byte* row) {
  for (size_t start = 0; start < values.size(); start += kBlock, row += sizeof(Q6_KBlock)) {
    Q6_KBlock block{};
    encode_block(values.subspan(start, kBlock), block);
    std::memcpy(row, &block, sizeof(block));
  }
}

}  // namespace rafter::tensor::codec

// MLX's affine quantisation. A row is one little-endian, LSB-first stream of `bits`-bit codes, so one rule
// covers every width; each group of `group` columns has a scale and a bias: value = code·scale + bias.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {
namespace {

// Reads codes in order from a byte stream. Never reads a byte past the last code.
class CodeReader {
 public:
  CodeReader(const std::byte* bytes, int bits) : bytes_(bytes), bits_(bits) {}

  uint32_t next() {
    while (held_ < bits_) {
      window_ |= std::to_integer<uint32_t>(*bytes_++) << held_;
      held_ += 8;
    }
    const uint32_t code = window_ & ((1u << bits_) - 1);
    window_ >>= bits_;
    held_ -= bits_;
    return code;
  }

 private:
  const std::byte* bytes_;
  int bits_;
  uint32_t window_ = 0;
  int held_ = 0;
};

// The mirror image. A group is a whole number of bytes, so nothing is left to flush after one.
class CodeWriter {
 public:
  CodeWriter(std::byte* bytes, int bits) : bytes_(bytes), bits_(bits) {}

  void put(uint32_t code) {
    window_ |= code << held_;
    for (held_ += bits_; held_ >= 8; held_ -= 8) {
      *bytes_++ = static_cast<std::byte>(window_ & 0xFF);
      window_ >>= 8;
    }
  }

 private:
  std::byte* bytes_;
  int bits_;
  uint32_t window_ = 0;
  int held_ = 0;
};

struct GroupScale {
  float scale, bias;
};

// MLX's rule: the grid starts at the value of largest magnitude and is stretched so that it contains zero.
// Scales are negative whenever that value is positive. All in fp32, rounding half to even.
GroupScale choose_scale(std::span<const float> values, int bits) {
  constexpr float kSmallestScale = 1e-7f;
  const float highest_code = static_cast<float>((1 << bits) - 1);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool start_low = std::fabs(*low) > std::fabs(*high);
  const float edge = start_low ? *low : *high;
  float scale = std::max((*high - *low) / highest_code, kSmallestScale);
  if (!start_low) scale = -scale;
  const float zero_code = std::rint(edge / scale);
  if (zero_code == 0) return {scale, 0};
  return {edge / zero_code, edge};
}

}  // namespace

void decode_affine(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out) {
  CodeReader codes(row.data, format.bits);
  const size_t group = format.group;
  for (size_t start = 0; start < out.size(); start += group) {
    const int64_t g = static_cast<int64_t>(start / group);
    const float scale = load_float(format.scale_type, row.scales, g);
    const float bias = load_float(format.scale_type, row.biases, g);
    for (size_t i = start; i < start + group; ++i) out[i] = static_cast<float>(codes.next()) * scale + bias;
  }
}

void encode_affine(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row) {
  CodeWriter codes(row.data, format.bits);
  const int highest_code = (1 << format.bits) - 1;
  const size_t group = format.group;
  float rounded[128];  // the largest group; MLX quantises weights that already are of the scales' type
  for (size_t start = 0; start < values.size(); start += group) {
    for (size_t i = 0; i < group; ++i) rounded[i] = round_float(format.scale_type, values[start + i]);
    const GroupScale chosen = choose_scale({rounded, group}, format.bits);
    const int64_t g = static_cast<int64_t>(start / group);
    store_float(format.scale_type, row.scales, g, chosen.scale);
    store_float(format.scale_type, row.biases, g, chosen.bias);
    // Codes come from the scale and bias before they are rounded for storage, as in MLX.
    for (size_t i = 0; i < group; ++i) {
      const float code = std::rint((rounded[i] - chosen.bias) / chosen.scale);
      codes.put(static_cast<uint32_t>(clamp_code(code, 0, highest_code)));
    }
  }
}

}  // namespace rafter::tensor::codec

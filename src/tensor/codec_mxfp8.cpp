// MLX's mxfp8: 32 e4m3 values under an e8m0 scale.
#include <array>

#include "tensor/mlx_float_rows.h"

namespace rafter::tensor::codec {
namespace {

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> made;
    for (int i = 0; i < 256; ++i) made[static_cast<size_t>(i)] = e4m3_to_f32(static_cast<uint8_t>(i));
    return made;
  }();
  return values;
}

}  // namespace

void decode_mxfp8(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out) {
  const std::array<float, 256>& values = e4m3_values();
  for (size_t start = 0; start < out.size(); start += format.group) {
    const float scale = e8m0_to_f32(std::to_integer<uint8_t>(row.scales[start / format.group]));
    for (size_t i = start; i < start + format.group; ++i) {
      out[i] = scale * values[std::to_integer<uint8_t>(row.data[i])];
    }
  }
}

void encode_mxfp8(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row) {
  for (size_t start = 0; start < values.size(); start += format.group) {
    const uint8_t byte = choose_e8m0(largest_magnitude(values.subspan(start, format.group)), 448);
    row.scales[start / format.group] = static_cast<std::byte>(byte);
    const float scale = e8m0_to_f32(byte);
    for (size_t i = start; i < start + format.group; ++i) {
      row.data[i] = static_cast<std::byte>(f32_to_e4m3(values[i] / scale));
    }
  }
}

}  // namespace rafter::tensor::codec

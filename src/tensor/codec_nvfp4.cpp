// MLX's nvfp4: 16 e2m1 values under an e4m3 scale. (Its optional scale of a whole matrix, which mlx-lm stores
// for stacked experts only, is refused when a checkpoint is read.)
#include "tensor/mlx_float_rows.h"

namespace rafter::tensor::codec {

void decode_nvfp4(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out) {
  decode_e2m1_groups(format, row, out, e4m3_to_f32);
}

void encode_nvfp4(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row) {
  encode_e2m1_groups(
      format, values, row,
      [](std::span<const float> group) { return f32_to_e4m3(largest_magnitude(group) / 6); }, e4m3_to_f32);
}

}  // namespace rafter::tensor::codec

// MLX's mxfp4: 32 e2m1 values under an e8m0 scale.
#include "tensor/mlx_float_rows.h"

namespace rafter::tensor::codec {

void decode_mxfp4(const NumberFormat& format, StoredRow<const std::byte> row, std::span<float> out) {
  decode_e2m1_groups(format, row, out, e8m0_to_f32);
}

void encode_mxfp4(const NumberFormat& format, std::span<const float> values, StoredRow<std::byte> row) {
  encode_e2m1_groups(
      format, values, row,
      [](std::span<const float> group) { return choose_e8m0(largest_magnitude(group), 6); }, e8m0_to_f32);
}

}  // namespace rafter::tensor::codec

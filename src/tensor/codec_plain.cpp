// F32, F16, BF16: one element after another, little-endian.
#include "base/check.h"
#include "tensor/codec_formats.h"

namespace rafter::tensor::codec {

void decode_plain(DType type, const std::byte* row, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = load_float(type, row, static_cast<int64_t>(i));
}

void encode_plain(DType type, std::span<const float> values, std::byte* row) {
  for (size_t i = 0; i < values.size(); ++i) store_float(type, row, static_cast<int64_t>(i), values[i]);
}

}  // namespace rafter::tensor::codec

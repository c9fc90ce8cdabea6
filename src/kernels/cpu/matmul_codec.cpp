#include "kernels/cpu/matmul_codec.h"

#include "tensor/codec.h"

namespace rafter::kernels {

void decode_columns(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
  tensor::MatrixView part{weight.format, 1,      count, weight.row(n) + weight.format.row_bytes(k),
                          nullptr,       nullptr};
  if (weight.scales != nullptr) {
    part.scales = weight.scale_row(n) + weight.format.scale_row_bytes(k);
  }
  if (weight.biases != nullptr) part.biases = weight.bias_row(n) + weight.format.bias_row_bytes(k);
  tensor::decode_row(part, 0, {out, static_cast<size_t>(count)});
}

}  // namespace rafter::kernels

#include <vector>

#include "base/check.h"
#include "kernels/ref/bodies.h"
#include "tensor/codec.h"

namespace rafter::kernels::reference {

void matmul(const MatmulArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  RAFTER_CHECK(
      args.segment_count == 1 && args.norm_weight == nullptr && args.epilogue == MatmulEpilogue::store,
      "the reference has no fused matmul: {} segments", args.segment_count);
  const MatmulSegment& segment = args.segments[0];
  const tensor::MatrixView& weight = segment.weight;
  const int64_t rows = *args.rows, inner = args.columns;
  RAFTER_CHECK(weight.columns == inner, "weight columns {}, input columns {}", weight.columns, inner);

  std::vector<double> inputs(rows * inner);
  for (int64_t i = 0; i < rows * inner; ++i) {
    const bool to_bf16 = args.precision == MatmulPrecision::bf16_inputs;
    inputs[i] = to_bf16 ? tensor::round_to_bf16(args.x[i]) : args.x[i];
  }
  std::vector<float> expanded(inner);
  for (int64_t n = 0; n < weight.rows; ++n) {
    tensor::decode_row(weight, n, expanded);
    for (int64_t b = 0; b < rows; ++b) {
      const double* x = inputs.data() + b * inner;
      double sum = segment.bias == nullptr ? 0.0 : segment.bias[n];
      for (int64_t k = 0; k < inner; ++k) sum += expanded[k] * x[k];
      segment.out[b * weight.rows + n] = static_cast<float>(sum);
    }
  }
}

}  // namespace rafter::kernels::reference

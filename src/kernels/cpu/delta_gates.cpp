#include "kernels/cpu/delta_gates.h"

#include <cmath>

namespace rafter::kernels {

void make_delta_gates(const DeltaGatesArgs& args, Worker& worker) {
  const int32_t heads = args.heads;
  for (int64_t begin, end; worker.claim(0, *args.rows, 1, &begin, &end);) {
    float* out = args.out + begin * 2 * heads;
    for (int32_t m = 0; m < heads; ++m) {
      const float x = args.alpha[begin * heads + m] + args.bias[m];
      const float softplus = x > 20.0f ? x : std::log1p(std::exp(x));  // e^−20 is below an ulp of 20
      out[m] = std::exp(args.rate[m] * softplus);
      out[heads + m] = 1.0f / (1.0f + std::exp(-args.beta[begin * heads + m]));
    }
  }
}

KernelTable::Scratch delta_scratch(const GatedDeltaArgs& args) {
  return {static_cast<size_t>(args.state.shape.tile_floats()) * sizeof(float), 0};
}

}  // namespace rafter::kernels

// The generic decoder: any format through its scalar codec. Slow and correct.
#pragma once

#include "kernels/cpu/matmul_codec.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct AnyFormat {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    decode_columns(weight, n, k, count, out);
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

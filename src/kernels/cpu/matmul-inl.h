// The chooser of a tier: which body multiplies which number format.
#pragma once

#include "kernels/cpu/matmul_any-inl.h"
#include "kernels/cpu/matmul_float-inl.h"
#include "kernels/cpu/norm_row-inl.h"
#include "kernels/cpu/swiglu_row-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// From best to fallback.
inline MatmulBody choose_body(const tensor::NumberFormat&, MatmulPrecision precision) {
  return float_body<AnyFormat>(precision);
}

constexpr MatmulTier kMatmulTier = {choose_body, norm_row, swiglu_row};

inline void add_matmul_kernels(KernelTable& table) {
  table.matmul = [](const MatmulArgs& args, Worker& worker) { run_matmul(kMatmulTier, args, worker); };
  table.fused_matmul = table.matmul;
  table.matmul_scratch = [](const MatmulArgs& args, int64_t capacity) {
    return matmul_scratch(kMatmulTier, args, capacity);
  };
  table.supports_format = supports_matmul_format;
  table.matmul_kernel_name = matmul_kernel_name;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

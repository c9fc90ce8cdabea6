// The chooser of a tier: which body multiplies which number format.
#pragma once

#include "kernels/cpu/matmul_affine-inl.h"
#include "kernels/cpu/matmul_any-inl.h"
#include "kernels/cpu/matmul_bf16-inl.h"
#include "kernels/cpu/matmul_bits-inl.h"
#include "kernels/cpu/matmul_plain-inl.h"
#include "kernels/cpu/matmul_q4-inl.h"
#include "kernels/cpu/matmul_q4_0-inl.h"
#include "kernels/cpu/matmul_q6_k-inl.h"
#include "kernels/cpu/matmul_q8-inl.h"
#include "kernels/cpu/matmul_q8_0-inl.h"
#include "kernels/cpu/norm_row-inl.h"
#include "kernels/cpu/swiglu_row-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

#if defined(__AVX512F__)

// From best to fallback.
inline MatmulBody choose_body(const tensor::NumberFormat& format, MatmulPrecision precision) {
  switch (format.kind) {
    case tensor::FormatKind::bf16:
      return bf16_body(precision);
    case tensor::FormatKind::affine:
      if (format.bits == 4) return affine_body<Q4Format>(format, precision);
      if (format.bits == 8) return affine_body<Q8Format>(format, precision);
      return bits_body(format, precision);
    case tensor::FormatKind::q4_0:
      return codes_body<Q4_0Format>(precision);
    case tensor::FormatKind::q4_1:
      return codes_body<Q4_1Format>(precision);
    case tensor::FormatKind::q8_0:
      return codes_body<Q8_0Format>(precision);
    case tensor::FormatKind::q6_k:
      return codes_body<Q6KFormat>(precision);
    case tensor::FormatKind::f16:
      return plain_body<F16Values>(precision);
    case tensor::FormatKind::f32:
      return plain_body<F32Values>(precision);
    default:
      return float_body<AnyFormat>(precision);
  }
  return float_body<AnyFormat>(precision);
}

#else

// From best to fallback.
inline MatmulBody choose_body(const tensor::NumberFormat& format, MatmulPrecision precision) {
  switch (format.kind) {
    case tensor::FormatKind::f32:
      return plain_body<F32Values>(precision);
    case tensor::FormatKind::f16:
      return plain_body<F16Values>(precision);
    case tensor::FormatKind::bf16:
      return plain_body<Bf16Values>(precision);
    case tensor::FormatKind::affine:
      if (format.bits == 4) return float_body<Q4Decoder>(precision);
      if (format.bits == 8) return float_body<Q8Decoder>(precision);
      break;
    case tensor::FormatKind::q4_0:
      return float_body<Q4_0Decoder>(precision);
    case tensor::FormatKind::q4_1:
      return float_body<Q4_1Decoder>(precision);
    case tensor::FormatKind::q8_0:
      return float_body<Q8_0Decoder>(precision);
    case tensor::FormatKind::q6_k:
      return float_body<Q6KDecoder>(precision);
    default:
      break;
  }
  return float_body<AnyFormat>(precision);
}

#endif

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

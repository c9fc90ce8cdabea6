// The chooser of a tier: which body multiplies which number format.
#pragma once

#include "kernels/cpu/experts_driver.h"
#include "kernels/cpu/matmul_affine-inl.h"
#include "kernels/cpu/matmul_any-inl.h"
#include "kernels/cpu/matmul_bf16-inl.h"
#include "kernels/cpu/matmul_bits-inl.h"
#include "kernels/cpu/matmul_iq4-inl.h"
#include "kernels/cpu/matmul_mx-inl.h"
#include "kernels/cpu/matmul_plain-inl.h"
#include "kernels/cpu/matmul_q2_k-inl.h"
#include "kernels/cpu/matmul_q4-inl.h"
#include "kernels/cpu/matmul_q4_0-inl.h"
#include "kernels/cpu/matmul_q4_k-inl.h"
#include "kernels/cpu/matmul_q5_0-inl.h"
#include "kernels/cpu/matmul_q6_k-inl.h"
#include "kernels/cpu/matmul_q8-inl.h"
#include "kernels/cpu/matmul_q8_0-inl.h"
#include "kernels/cpu/row_functions.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

#if defined(__AVX512F__)

// From best to fallback.
inline MatmulBody choose_body(const tensor::NumberFormat& format, MatmulPrecision precision) {
  switch (format.kind) {
    case tensor::FormatKind::bf16:
      return bf16_body(precision);
    case tensor::FormatKind::affine:
      if (format.bits == 4) return affine_body<Q4Body>(format, precision);
      if (format.bits == 8) return affine_body<Q8Body>(format, precision);
      return bits_body(format, precision);
    case tensor::FormatKind::q4_0:
      return nibbles_body<Q4_0Nibbles, Q4_0Format>(precision);
    case tensor::FormatKind::q4_1:
      return nibbles_body<Q4_1Nibbles, Q4_1Format>(precision);
    case tensor::FormatKind::q8_0:
      return codes_body<Q8_0Format>(precision);
    case tensor::FormatKind::q6_k:
      return codes_body<Q6KFormat>(precision);
    case tensor::FormatKind::f16:
      return plain_body<F16Values>(precision);
    case tensor::FormatKind::f32:
      return plain_body<F32Values>(precision);
    case tensor::FormatKind::q5_0:
      return unpacked_body<Q5_0Unpacker>(precision);
    case tensor::FormatKind::q5_1:
      return unpacked_body<Q5_1Unpacker>(precision);
    case tensor::FormatKind::q2_k:
      return codes_body<Q2KFormat>(precision);
    case tensor::FormatKind::q3_k:
      return codes_body<Q3KFormat>(precision);
    case tensor::FormatKind::q4_k:
      return nibbles_body<Q4KNibbles, Q4KFormat>(precision);
    case tensor::FormatKind::q5_k:
      return codes_body<Q5KFormat>(precision);
    case tensor::FormatKind::iq4_nl:
      return nibbles_body<Iq4NlNibbles, Iq4NlFormat>(precision);
    case tensor::FormatKind::iq4_xs:
      return codes_body<Iq4XsFormat>(precision);
    case tensor::FormatKind::mxfp4_block:
      return unpacked_body<Mxfp4BlockUnpacker>(precision);
    case tensor::FormatKind::mxfp4:
      return codes_body<Mxfp4Format>(precision);
    case tensor::FormatKind::nvfp4:
      return unpacked_body<Nvfp4Unpacker>(precision);
    case tensor::FormatKind::mxfp8:
      return float_body<Mxfp8Decoder>(precision);
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
    case tensor::FormatKind::q5_0:
      return float_body<Q5_0Decoder>(precision);
    case tensor::FormatKind::q5_1:
      return float_body<Q5_1Decoder>(precision);
    case tensor::FormatKind::q2_k:
      return float_body<Q2KDecoder>(precision);
    case tensor::FormatKind::q3_k:
      return float_body<Q3KDecoder>(precision);
    case tensor::FormatKind::q4_k:
      return float_body<Q4KDecoder>(precision);
    case tensor::FormatKind::q5_k:
      return float_body<Q5KDecoder>(precision);
    case tensor::FormatKind::iq4_nl:
      return float_body<Iq4NlDecoder>(precision);
    case tensor::FormatKind::iq4_xs:
      return float_body<Iq4XsDecoder>(precision);
    case tensor::FormatKind::mxfp4_block:
      return float_body<Mxfp4BlockDecoder>(precision);
    case tensor::FormatKind::mxfp4:
      return float_body<Mxfp4Decoder>(precision);
    case tensor::FormatKind::nvfp4:
      return float_body<Nvfp4Decoder>(precision);
    case tensor::FormatKind::mxfp8:
      return float_body<Mxfp8Decoder>(precision);
  }
  return float_body<AnyFormat>(precision);
}

#endif

constexpr MatmulTier kMatmulTier = {choose_body, norm_row, swiglu_row, geglu_row};

inline void add_matmul_kernels(KernelTable& table) {
  table.matmul = [](const MatmulArgs& args, Worker& worker) { run_matmul(kMatmulTier, args, worker); };
  table.fused_matmul = table.matmul;
  table.matmul_scratch = [](const MatmulArgs& args, int64_t capacity) {
    return matmul_scratch(kMatmulTier, args, capacity);
  };
  table.experts = [](const ExpertsArgs& args, Worker& worker) { run_experts(kMatmulTier, args, worker); };
  table.experts_scratch = [](const ExpertsArgs& args, int64_t capacity) {
    return experts_scratch(kMatmulTier, args, capacity);
  };
  table.supports_format = supports_matmul_format;
  table.matmul_kernel_name = matmul_kernel_name;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

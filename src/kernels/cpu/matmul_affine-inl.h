// The chooser among the instances of an affine format: its group and the type of its scales.
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_codes_panel-inl.h"
#include "kernels/cpu/matmul_scales-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

template <template <int, class> class Body, int kGroup>
MatmulBody affine_body_of(tensor::DType scale_type, MatmulPrecision precision) {
  switch (scale_type) {
    case tensor::DType::f16:
      return Body<kGroup, F16Scales>::of(precision);
    case tensor::DType::f32:
      return Body<kGroup, F32Scales>::of(precision);
    default:
      return Body<kGroup, Bf16Scales>::of(precision);
  }
}

// Body<group, scales>::of(precision) is the product of one instance.
template <template <int, class> class Body>
MatmulBody affine_body(const tensor::NumberFormat& format, MatmulPrecision precision) {
  switch (format.group) {
    case 32:
      return affine_body_of<Body, 32>(format.scale_type, precision);
    case 64:
      return affine_body_of<Body, 64>(format.scale_type, precision);
    default:
      return affine_body_of<Body, 128>(format.scale_type, precision);
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

// Functions of one row that several kernels of a tier share, so that all give the same bits: defined in the
// tier's rows_*.cpp (norm_row-inl.h, swiglu_row-inl.h, geglu_row-inl.h), which compilers may vectorise.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include <cstdint>

namespace rafter::kernels::RAFTER_TIER {

// (mean(x²) + epsilon)^(−1/2) of x[width].
float inverse_rms(const float* x, int64_t width, float epsilon);

void norm_row(const float* x, const float* weight, int64_t width, float epsilon, float* out);
void swiglu_row(const float* gate, const float* up, int64_t width, float* out);
void geglu_row(const float* gate, const float* up, int64_t width, float* out);

}  // namespace rafter::kernels::RAFTER_TIER

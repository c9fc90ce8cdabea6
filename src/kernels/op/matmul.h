// Matrix products over stored weights: out[b, n] = Σ_k W[n, k] · x[b, k] (+ bias[n]); [M,K] × [N,K]ᵀ with M =
// B rows.
//
// One op takes several segments that share the input x (q, k, v; gate, up), each in its own number format:
// one pass over x, no copy of weights. The fused forms are the same op with a prologue and an epilogue; what
// each stands for:
//   norm_weight set           x is first RMS-normed over its K columns, per row
//   epilogue add              out = residual + W·x
//   epilogue swiglu           two segments, gate and up: out = silu(gate·x) ⊙ (up·x), one output
//   epilogue geglu            the same with gelu_tanh for silu
//
// Order contract: the sum over k has one order, which depends on K and the format only: not on B, not on how
// the rows are tiled, not on the number of workers. A row's result is bit-identical alone and in any company.
//
// Numerics: bf16_inputs rounds x to bf16 (after the norm, if any); fp32_inputs keeps at least 16 significand
// bits. A body for quantised formats may then hold x as integers that share a power of two among 64 inputs:
// of 16 bits with bf16_inputs, of 23 with fp32_inputs. An input far below the largest of its 64 then errs by
// up to 2^-16 (2^-23) of that largest instead of keeping every bit of its own. Accumulation is fp32 or wider.
// Grouped formats compute Σ_g (scale_g · Σ code·x + bias_g · Σ x).
#pragma once

#include "kernels/op/step.h"
#include "tensor/matrix.h"

namespace rafter::kernels {

enum class MatmulPrecision : uint8_t { bf16_inputs, fp32_inputs };
enum class MatmulEpilogue : uint8_t { store, add, swiglu, geglu };

inline bool is_gated(MatmulEpilogue epilogue) {
  return epilogue == MatmulEpilogue::swiglu || epilogue == MatmulEpilogue::geglu;
}

struct MatmulSegment {
  tensor::MatrixView weight;    // [N, K]
  const float* bias = nullptr;  // [N] or null
  float* out = nullptr;         // [B, N]; unused for the `up` segment of a gated one
};

struct MatmulArgs {
  static constexpr int kMaxSegments = 4;

  const int32_t* rows = nullptr;  // live row count
  int64_t columns = 0;            // K
  MatmulPrecision precision = MatmulPrecision::bf16_inputs;
  MatmulEpilogue epilogue = MatmulEpilogue::store;
  const float* norm_weight = nullptr;  // [K] or null
  float norm_epsilon = 0;
  const float* x = nullptr;         // [B, K]
  const float* residual = nullptr;  // epilogue add: [B, N]; may be segments[0].out
  int segment_count = 0;
  MatmulSegment segments[kMaxSegments];
};

inline Cost cost(const MatmulArgs& a, int64_t rows) {
  Cost c;
  c.activation_bytes = rows * a.columns * 4;
  for (int s = 0; s < a.segment_count; ++s) {
    const tensor::MatrixView& w = a.segments[s].weight;
    c.weight_bytes += w.bytes();
    c.operations += 2 * rows * w.rows * w.columns;
    if (s == 0 || !is_gated(a.epilogue)) c.activation_bytes += rows * w.rows * 4;
  }
  if (a.epilogue == MatmulEpilogue::add) c.activation_bytes += rows * a.segments[0].weight.rows * 4;
  return c;
}

}  // namespace rafter::kernels

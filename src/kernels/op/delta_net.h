// The ops of a gated delta-net layer and of attention with an output gate.
#pragma once

#include "kernels/op/recurrent.h"

namespace rafter::kernels {

// Depthwise causal convolution over the last `taps` positions, then silu; cut into q | k | v:
//   y[c] = Σ_j weight[j, c] · x[position − (taps − 1 − j), c],   out = y · σ(y)
// Positions before 0 count as zero. Sums over j in ascending order.
struct ShortConvolutionArgs {
  const RecurrentInput* runs = nullptr;
  RecurrentLayer state;
  const float* weight = nullptr;  // [taps, C]; the last tap meets the row itself
  const float* x = nullptr;       // [B, C], C = 2 · K · DK + M · DV
  float* q = nullptr;             // [B, K · DK]
  float* k = nullptr;             // [B, K · DK]
  float* v = nullptr;             // [B, M · DV]
};

// out = scale · x / √(Σ x² + epsilon) over groups of `width`; the sum of squares as in rms_norm.
struct L2NormArgs {
  const int32_t* rows = nullptr;
  int32_t groups = 1;
  int64_t width = 0;
  float epsilon = 0;
  float scale = 1;
  const float* x = nullptr;  // [B, groups · width]
  float* out = nullptr;      // the same shape; may be x
};

// Per value head: decay g = exp(rate · ln(1 + e^(alpha + bias))), strength β = σ(beta).
struct DeltaGatesArgs {
  const int32_t* rows = nullptr;
  int32_t heads = 0;             // M
  const float* rate = nullptr;   // [M], negative: −exp(A_log)
  const float* bias = nullptr;   // [M]
  const float* alpha = nullptr;  // [B, M]
  const float* beta = nullptr;   // [B, M]
  float* out = nullptr;          // [B, 2 M]: decays, then strengths
};

// The gated delta rule, per value head with its key head's q and k, row after row of each sequence:
//   S ← g S;   δ = β (v − S k);   S ← S + δ kᵀ;   out = S q
// computed as u = S k, w = S q over the state before the row; δ = β (v − g u), out = g w + δ (k · q).
//
// Order contract: u and w are sums over DK with four partial sums, index mod 4, joined (0 + 1) + (2 + 3); one
// row at a time, whatever the step holds. There is no second, chunked form: see cpu/delta_net-inl.h.
struct GatedDeltaArgs {
  const RecurrentInput* runs = nullptr;
  RecurrentLayer state;
  const float* q = nullptr;      // [B, K · DK], normalised and scaled
  const float* k = nullptr;      // [B, K · DK], normalised
  const float* v = nullptr;      // [B, M · DV]
  const float* gates = nullptr;  // [B, 2 M] from delta_gates
  float* out = nullptr;          // [B, M · DV]
};

// out = silu(gate) ⊙ rms_norm(x) over groups of `width`.
struct GatedRmsNormArgs {
  const int32_t* rows = nullptr;
  int32_t groups = 1;
  int64_t width = 0;
  float epsilon = 0;
  const float* weight = nullptr;  // [width], shared by all groups
  const float* x = nullptr;       // [B, groups · width]
  const float* gate = nullptr;    // the same shape
  float* out = nullptr;           // the same shape; may be x
};

// Cuts each head's 2 · width values into its query and its gate.
struct SplitGateArgs {
  const int32_t* rows = nullptr;
  int32_t heads = 0;
  int64_t width = 0;
  const float* x = nullptr;  // [B, heads, 2, width]
  float* query = nullptr;    // [B, heads · width]
  float* gate = nullptr;     // [B, heads · width]
};

// out = x ⊙ σ(gate), the gate one value per element or one per row.
struct SigmoidGateArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  const float* x = nullptr;     // [B, width]
  const float* gate = nullptr;  // [B, width], or [B] if `one_per_row`
  float* out = nullptr;         // may be x
  bool one_per_row = false;
};

// State bytes are those of one sequence: it reads and writes its state once, however many rows it has.
inline Cost cost(const ShortConvolutionArgs& a, int64_t rows) {
  const RecurrentShape& s = a.state.shape;
  const int64_t kept = rows < s.convolution_rows() ? rows : s.convolution_rows();
  return {s.taps * s.channels() * 4, (s.taps - 1 + kept) * s.channels() * 4, rows * s.channels() * 8,
          rows * s.channels() * (2 * s.taps + 4)};
}
inline Cost cost(const L2NormArgs& a, int64_t rows) {
  const int64_t elements = rows * a.groups * a.width;
  return {0, 0, elements * 8, elements * 3};
}
inline Cost cost(const DeltaGatesArgs& a, int64_t rows) {
  return {a.heads * 8, 0, rows * a.heads * 16, rows * a.heads * 8};
}
inline Cost cost(const GatedDeltaArgs& a, int64_t rows) {
  const RecurrentShape& s = a.state.shape;
  const int64_t kept = rows < kReplayRows ? rows : kReplayRows;
  const int64_t journal = kept * 2 * (s.key_width() + s.delta_row() + s.value_heads);
  const int64_t activations = 2 * s.key_width() + 2 * s.value_width() + 2 * s.value_heads;
  return {0, (2 * s.state_floats() + journal) * 4, rows * activations * 4, rows * s.state_floats() * 7};
}
inline Cost cost(const GatedRmsNormArgs& a, int64_t rows) {
  const int64_t elements = rows * a.groups * a.width;
  return {a.width * 4, 0, elements * 12, elements * 9};
}
inline Cost cost(const SplitGateArgs& a, int64_t rows) { return {0, 0, rows * a.heads * a.width * 16, 0}; }
inline Cost cost(const SigmoidGateArgs& a, int64_t rows) {
  return {0, 0, rows * a.width * 12, rows * a.width * 4};
}

}  // namespace rafter::kernels

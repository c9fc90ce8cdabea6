// Row-wise glue: gated activations, residual add, scalar multiply, soft cap, row selection.
#pragma once

#include "kernels/op/step.h"

namespace rafter::kernels {

// out = silu(gate) ⊙ up, silu(x) = x·σ(x).
struct SwigluArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  const float* gate = nullptr;  // [B, width]
  const float* up = nullptr;    // [B, width]
  float* out = nullptr;         // [B, width]; may be gate
};

// out = gelu_tanh(gate) ⊙ up, gelu_tanh(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))). `up` may be a run
// of columns of wider rows.
struct GegluArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  int64_t up_stride = 0;        // columns of a row of up
  int64_t up_offset = 0;        // of the first of its `width` columns that are meant
  const float* gate = nullptr;  // [B, width]
  const float* up = nullptr;    // [B, up_stride]
  float* out = nullptr;         // [B, width]; may be gate
};

// out = factor · x.
struct ScaleArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  float factor = 1;
  const float* x = nullptr;  // [B, width]
  float* out = nullptr;      // may be x
};

// out = cap · tanh(x / cap).
struct SoftcapArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  float cap = 0;
  const float* x = nullptr;  // [B, width]
  float* out = nullptr;      // may be x
};

// out = a + b.
struct AddArgs {
  const int32_t* rows = nullptr;
  int64_t width = 0;
  const float* a = nullptr;  // [B, width]
  const float* b = nullptr;  // [B, width]
  float* out = nullptr;      // may be a
};

// out[i, :] = x[wanted[i], :] for the rows whose logits are wanted.
struct SelectRowsArgs {
  const StepInput* input = nullptr;
  int64_t width = 0;
  const float* x = nullptr;  // [B, width]
  float* out = nullptr;      // [wanted_rows, width]
};

inline Cost cost(const SwigluArgs& a, int64_t rows) {
  return {0, 0, rows * a.width * 12, rows * a.width * 5};
}
inline Cost cost(const GegluArgs& a, int64_t rows) {
  return {0, 0, rows * a.width * 12, rows * a.width * 10};
}
inline Cost cost(const ScaleArgs& a, int64_t rows) { return {0, 0, rows * a.width * 8, rows * a.width}; }
inline Cost cost(const SoftcapArgs& a, int64_t rows) {
  return {0, 0, rows * a.width * 8, rows * a.width * 6};
}
inline Cost cost(const AddArgs& a, int64_t rows) { return {0, 0, rows * a.width * 12, rows * a.width}; }
inline Cost cost(const SelectRowsArgs& a, int64_t wanted) { return {0, 0, wanted * a.width * 8, 0}; }

}  // namespace rafter::kernels

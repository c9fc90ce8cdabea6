// Row-wise glue: gated activation, residual add, row selection.
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
inline Cost cost(const AddArgs& a, int64_t rows) { return {0, 0, rows * a.width * 12, rows * a.width}; }
inline Cost cost(const SelectRowsArgs& a, int64_t wanted) { return {0, 0, wanted * a.width * 8, 0}; }

}  // namespace rafter::kernels

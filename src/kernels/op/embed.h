// Embedding lookup: out[b, :] = scale · table[tokens[b], :], expanded to fp32.
#pragma once

#include "kernels/op/step.h"
#include "tensor/matrix.h"

namespace rafter::kernels {

struct EmbedArgs {
  const StepInput* input = nullptr;
  tensor::MatrixView table;  // [V, D], any number format
  float scale = 1.0f;
  float* out = nullptr;  // [B, D]
};

inline Cost cost(const EmbedArgs& a, int64_t rows) {
  const int64_t row_bytes = a.table.format.matrix_bytes(1, a.table.columns);
  return {rows * row_bytes, 0, rows * a.table.columns * 4, rows * a.table.columns * 2};
}

}  // namespace rafter::kernels

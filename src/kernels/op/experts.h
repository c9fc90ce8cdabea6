// The experts of a mixture: each row through its K chosen gated feed-forwards, summed by weight:
//   out[b, :] = Σ_j w_j · down[e_j] · h_j,   h_j = act(gate[e_j] · x[b, :]) ⊙ (up[e_j] · x[b, :])
// with (e_j, w_j) = routes[b, j]; act is silu (swiglu) or gelu_tanh (geglu).
//
// Only matrices of experts that some row chose are read, each once for all the rows that chose it.
//
// Order contract: inside an expert the products are those of op/matmul.h, so a row's h_j and its product with
// `down` have the bits that the separate ops give; h_j is rounded as that op's input. The sum over j runs in
// rank order, from w_0 · y_0 on, each product and each sum rounded to fp32. So a row's result depends on
// its own x and routes only, not on the company or the number of workers.
#pragma once

#include <cmath>

#include "kernels/op/matmul.h"
#include "kernels/op/router.h"

namespace rafter::kernels {

enum class GatedActivation : uint8_t { swiglu, geglu };

struct ExpertsArgs {
  const int32_t* rows = nullptr;
  int32_t experts = 0;  // E
  int32_t chosen = 0;   // K
  int64_t width = 0;    // D
  int64_t hidden = 0;   // I
  MatmulPrecision precision = MatmulPrecision::bf16_inputs;
  GatedActivation activation = GatedActivation::swiglu;
  // [E] each, anywhere in memory; the experts of one role share their format and shape.
  const tensor::MatrixView* gate = nullptr;  // [I, D]
  const tensor::MatrixView* up = nullptr;    // [I, D]
  const tensor::MatrixView* down = nullptr;  // [D, I]
  const float* x = nullptr;                  // [B, D]
  const Route* routes = nullptr;             // [B, K]; experts of [0, E), distinct within a row
  float* out = nullptr;                      // [B, D]; may be x
  int64_t* experts_read = nullptr;           // set to the number of experts that the call read; may be null
};

// Experts that `rows` rows choose between them if all choices are equally likely: E(1 − (1 − K/E)^rows).
inline double expected_experts(const ExpertsArgs& a, int64_t rows) {
  const double share = static_cast<double>(a.chosen) / a.experts;
  return a.experts * (1 - std::pow(1 - share, static_cast<double>(rows)));
}

// What a call costs that reads the matrices of `read` experts. How many those are depends on the data: one
// row reads K; for more see expected_experts(), and experts_read after the call.
inline Cost cost(const ExpertsArgs& a, int64_t rows, double read) {
  const int64_t expert_bytes = a.gate[0].bytes() + a.up[0].bytes() + a.down[0].bytes();
  Cost c;
  c.weight_bytes = std::llround(read * static_cast<double>(expert_bytes));
  c.activation_bytes = rows * (2 * a.width * 4 + a.chosen * 8);
  c.operations = rows * a.chosen * (6 * a.width * a.hidden + 5 * a.hidden + 2 * a.width);
  return c;
}

}  // namespace rafter::kernels

// Passes over a whole vocabulary of fp32 logits, written so that the compiler vectorises them: at 150,000
// entries a scalar exp alone would cost a millisecond per token.
#pragma once

#include <cstddef>
#include <span>

namespace rafter::decode {

struct Largest {
  size_t index = 0;  // the lowest of equals
  float value = 0;
  bool finite = false;  // false: some entry is NaN or +inf, or every entry is −inf
};

// `values` holds at least one entry.
Largest find_largest(std::span<const float> values);

// ln Σ exp(values), from their largest value.
float log_sum_exp(std::span<const float> values, float largest);

// out[i] = exp((values[i] − largest) · scale), relative error below 3e-7 of the fp32 argument's exp; 0 below
// e^−87. Returns their sum.
double exponentials(std::span<const float> values, float largest, float scale, std::span<float> out);

// The index that `unit` in [0, 1) draws in proportion to the weights, whose sum is `sum`. One of weight 0 is
// never drawn (unless all are). The order of addition is fixed, so equal weights give equal draws.
size_t draw_index(std::span<const float> weights, double sum, double unit);

}  // namespace rafter::decode

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

}  // namespace rafter::decode

// What the steps of a plan cost together.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace rafter::lab {

struct StepCosts {
  kernels::Cost all;
  tensor::NumberFormat main_format;  // that most weight bytes have

  int64_t bytes() const { return all.weight_bytes + all.cache_bytes; }
};

// Of a step of `rows`, `wanted` of which want logits, each attending to `context` positions.
StepCosts costs_of(const plan::Plan& plan, int64_t rows, int64_t wanted, int64_t context);

}  // namespace rafter::lab

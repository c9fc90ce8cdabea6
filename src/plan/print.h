// The plan as a person reads it.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace rafter::plan {

// One step of a plan, described.
struct StepDescription {
  int index = 0;
  int32_t layer = -1;
  std::string role;     // "attn_norm+q_proj+k_proj+v_proj"
  std::string op;       // "matmul"
  std::string kernel;   // "qmv_q4g64"; empty before binding
  std::string shape;    // "[1,2048]×[2560,2048]ᵀ"
  std::string formats;  // "q4g64 q4g64 q8g64"
  kernels::Cost cost;
  bool barrier = false;
};

// `wanted` as for op_cost.
std::vector<StepDescription> describe(const Plan& plan, int64_t rows, int64_t wanted, int64_t context);

// A table of steps, repeated layers folded unless `every_layer`, and the sums below it.
void print_plan(const Plan& plan, int64_t rows, int64_t context, bool every_layer, std::ostream& out);

}  // namespace rafter::plan

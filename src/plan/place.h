// Placement: where each value lives in the activation arena, and where the team must meet.
#pragma once

#include <functional>

#include "plan/plan.h"

namespace rafter::plan {

// Bytes of a value's buffer at the plan's capacity, a multiple of 64.
int64_t value_bytes(const Plan& plan, Value value);

// Assigns offsets (first fit over lifetimes; an op writes over an input it may overwrite when that input dies
// there) and barriers (before an op that reads, or overwrites, what an op since the last barrier wrote or
// read). `uses_shared_scratch` says whether an op's kernel uses the team's shared scratch: two such ops never
// run side by side.
void place(Plan& plan, const std::function<bool(const Op&)>& uses_shared_scratch);

}  // namespace rafter::plan

// Fusion: known neighbours become one op. A fused op carries its composition, so that expand() can undo it
// for a back end without a body for it, and so that a test can run both.
#pragma once

#include <functional>

#include "plan/plan.h"

namespace rafter::plan {

// Replaces, where every intermediate value has no other reader and is not tapped:
//   rope(q), rope(k), kv_append          → rope_append
//   matmuls of one input                 → one matmul of several segments
//   matmul(gate, up), swiglu or geglu    → matmul with that epilogue
//   rms_norm, matmul                     → matmul with the norm prologue
//   matmul, add                          → matmul with the add epilogue
//   rms_norm, add [, scale]              → rms_norm that adds a residual
void fuse(Plan& plan);

// Replaces each fused op that `keep` refuses by its composition.
void expand(Plan& plan, const std::function<bool(const Op&)>& keep);

// Whether the op needs a fused body.
bool is_fused(const Op& op);

}  // namespace rafter::plan

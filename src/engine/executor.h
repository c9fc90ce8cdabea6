// What the engine asks of whoever runs a plan: the host executor or the captured one.
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/step_profile.h"
#include "kernels/op/step.h"
#include "plan/plan.h"

namespace rafter::engine {

// A plan with buffers, bound to one executor.
class BoundPlan {
 public:
  virtual ~BoundPlan() = default;
  virtual const plan::Plan& plan() const = 0;
  // A value's buffer [rows, width] in host memory after a run; for logits and taps, which keep theirs.
  virtual const float* values(plan::Value value) = 0;
  // Bytes of activations and scratch that are this plan's own.
  virtual int64_t bytes() const { return plan().arena_bytes; }
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `input` is the block that each run reads; `max_positions` bounds what a row may attend to.
  virtual base::Result<std::unique_ptr<BoundPlan>> bind_plan(plan::Plan plan, const kernels::StepInput* input,
                                                             int64_t max_positions) = 0;
  // Runs every step; returns when the last is done. With a profile: a clock around every op.
  virtual base::Status run_plan_blocking(BoundPlan& bound, StepProfile* profile) = 0;
  // Bytes of scratch that all bound plans share.
  virtual int64_t shared_scratch_bytes() const { return 0; }
};

}  // namespace rafter::engine

// What the engine asks of whoever runs a plan: the host executor or the captured one.
#pragma once

#include <memory>
#include <span>

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
  // --- steps that go on by themselves, where has_greedy_steps(): each row's largest logit is its next token,
  // and never leaves the device before the next step has begun.
  //
  // start_greedy_step begins a step and returns: of the input block if `first`, else of the rows of the step
  // before, one position on; the host's block must name these positions too, its tokens mean nothing. Every
  // row wants its logits. At most kGreedyAhead steps may be under way. greedy_tokens_blocking gives the
  // oldest step's tokens, valid until the next call of either.
  static constexpr int kGreedyAhead = 2;
  virtual bool has_greedy_steps() const { return false; }
  virtual base::Status start_greedy_step(BoundPlan& bound, bool first);
  virtual base::Result<std::span<const int32_t>> greedy_tokens_blocking();

  // Bytes of scratch that all bound plans share.
  virtual int64_t shared_scratch_bytes() const { return 0; }
};

inline base::Status Executor::start_greedy_step(BoundPlan&, bool) {
  return base::Error{base::ErrorCode::unsupported, "this executor has no greedy steps", "engine", ""};
}
inline base::Result<std::span<const int32_t>> Executor::greedy_tokens_blocking() {
  return base::Error{base::ErrorCode::unsupported, "this executor has no greedy steps", "engine", ""};
}

}  // namespace rafter::engine

// The host executor: runs a plan in host memory with one kernel table, the reference's or a CPU tier's.
//
// A bound plan is an array of steps: a kernel, its arguments with every address filled in, and whether the
// team meets first. A run is one parallel region in which every worker walks the whole array.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/worker_team.h"
#include "cache/kv_cache.h"
#include "cache/recurrent_store.h"
#include "device/host_memory.h"
#include "engine/executor.h"
#include "engine/step_profile.h"
#include "kernels/op/kernel_table.h"
#include "plan/plan.h"

namespace rafter::engine {

class HostExecutor final : public Executor {
 public:
  // Keys and values live in `cache`, recurrent states in `states` (null: the plan has none). All outlive the
  // executor.
  HostExecutor(const kernels::KernelTable& table, base::WorkerTeam& team, const cache::KvCache& cache,
               const cache::RecurrentStore* states = nullptr);
  ~HostExecutor() override;

  // Undoes the fusions that the table has no body for, places buffers, and resolves every address. `input` is
  // the block that each run reads; `max_positions` bounds what a row may attend to.
  class Bound final : public BoundPlan {
   public:
    const plan::Plan& plan() const override { return plan_; }
    const float* values(plan::Value value) override { return data(value); }
    // A value's buffer [rows, width]; for logits, taps and inputs, which keep theirs.
    float* data(plan::Value value) {
      return reinterpret_cast<float*>(arena_.data() + plan_.offsets[value.id]);
    }

   private:
    friend class HostExecutor;
    struct Step {
      void (*run)(const Step& step, kernels::Worker& worker) = nullptr;
      void (*kernel)() = nullptr;  // of the type that `run` knows
      const void* args = nullptr;
      bool barrier_before = false;
    };
    plan::Plan plan_;
    device::HostMemory arena_;
    std::vector<Step> steps_;
    std::vector<kernels::Worker::Cursor> cursors_;  // [steps, kPhases]
    std::vector<int64_t> experts_read_;             // [steps]
    size_t scratch_per_worker_ = 0, scratch_shared_ = 0;
  };
  base::Result<std::unique_ptr<Bound>> bind(plan::Plan plan, const kernels::StepInput* input,
                                            int64_t max_positions);

  // Runs every step on the whole team; returns when the last is done.
  base::Status run_blocking(Bound& bound);
  // The same with a clock around every op (about 50 ns each).
  base::Status run_profiled_blocking(Bound& bound, StepProfile& profile);

  base::Result<std::unique_ptr<BoundPlan>> bind_plan(plan::Plan plan, const kernels::StepInput* input,
                                                     int64_t max_positions) override {
    RAFTER_ASSIGN(auto bound, bind(std::move(plan), input, max_positions));
    return std::unique_ptr<BoundPlan>(std::move(bound));
  }
  base::Status run_plan_blocking(BoundPlan& bound, StepProfile* profile) override {
    auto& own = static_cast<Bound&>(bound);
    return profile == nullptr ? run_blocking(own) : run_profiled_blocking(own, *profile);
  }
  int64_t shared_scratch_bytes() const override { return static_cast<int64_t>(scratch_.size()); }

 private:
  class TeamWorker;
  base::Status ensure_scratch(size_t per_worker, size_t shared);
  void bind_op(Bound& bound, size_t index, const kernels::StepInput* input);
  kernels::KernelTable::Scratch scratch_of(const plan::Op& op, int64_t capacity, int64_t max_positions) const;

  const kernels::KernelTable& table_;
  base::WorkerTeam& team_;
  const cache::KvCache& cache_;
  const cache::RecurrentStore* states_;
  std::vector<std::unique_ptr<TeamWorker>> workers_;
  device::HostMemory scratch_;  // shared first, then one part per worker
  size_t scratch_per_worker_ = 0, scratch_shared_ = 0;
};

}  // namespace rafter::engine

// The captured executor: a plan bound to device memory, its whole step one graph per bucket.
//
// Weights are uploaded once, at the first bind; later buckets find them by their host address. Everything
// that changes from step to step lies in the input block on the device, copied before the graph runs, so a
// graph is never updated. The host's cache reservation is never touched: its offsets are the device's.
//
// A device fault makes the executor unhealthy: that run and every later one end with its error.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cache/kv_cache.h"
#include "device/gpu.h"
#include "device/host_memory.h"
#include "engine/executor.h"
#include "kernels/cuda/cuda_kernels.h"

namespace rafter::engine {

class CudaExecutor final : public Executor {
 public:
  struct Options {
    int row_capacity = 1;
    bool capture = true;  // false: every launch on its own, as a check on the graph
  };
  // Errors: unsupported (no CUDA here), out_of_memory. `cache` outlives the executor, which serves its
  // copies.
  static base::Result<std::unique_ptr<CudaExecutor>> create(const device::GpuInfo& gpu, cache::KvCache& cache,
                                                            const Options& options);
  ~CudaExecutor() override;

  base::Result<std::unique_ptr<BoundPlan>> bind_plan(plan::Plan plan, const kernels::StepInput* input,
                                                     int64_t max_positions) override;
  base::Status run_plan_blocking(BoundPlan& bound, StepProfile* profile) override;

  bool has_greedy_steps() const override { return true; }
  base::Status start_greedy_step(BoundPlan& bound, bool first) override;
  base::Result<std::span<const int32_t>> greedy_tokens_blocking() override;

  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  class Bound;
  CudaExecutor(cache::KvCache& cache, device::GpuInfo gpu, const Options& options)
      : kv_(cache), gpu_(std::move(gpu)), options_(options) {}
  base::Status upload(const void* host, size_t bytes);
  base::Status upload_operands(const plan::Plan& plan);
  template <typename T>
  const T* on_device(const T* host) const;
  tensor::MatrixView on_device(tensor::MatrixView view) const;
  kernels::KvLayer cache_layer(int32_t layer) const;
  base::Status refuse_unsupported(const plan::Plan& plan) const;
  void bind_op(Bound& bound, plan::Op& op);
  bool hands_on_bf16(const plan::Plan& plan, size_t index, const kernels::CudaLaunch& launch) const;
  kernels::CudaLaunch launch_of(const Bound& bound) const;
  void launch_all(Bound& bound, bool greedy);
  base::Result<device::GpuGraph> capture(Bound& bound, bool greedy);
  base::Status copy_input(const Bound& bound);
  base::Status copy_tables(const Bound& bound);
  base::Status run_greedy(Bound& bound, bool first);
  base::Status run(Bound& bound);

  cache::KvCache& kv_;
  device::GpuInfo gpu_;
  Options options_;
  device::GpuStream stream_;
  std::vector<device::GpuMemory> stores_;  // by kind of layers
  device::GpuMemory input_memory_, tables_, counters_;
  device::PinnedMemory input_staging_, table_staging_, logits_staging_;
  // Greedy steps: the tokens on the device, and a ring of what the host has not read yet.
  struct TokenSlot {
    device::PinnedMemory tokens;
    device::GpuEvent written;
    int32_t rows = 0;
  };
  device::GpuMemory tokens_;
  TokenSlot token_slots_[kGreedyAhead];
  int64_t greedy_started_ = 0, greedy_read_ = 0;
  std::map<const void*, device::GpuMemory> weights_;
  int64_t weight_bytes_ = 0;
  std::optional<base::Error> fault_;
};

}  // namespace rafter::engine

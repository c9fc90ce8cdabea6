// Will it fit, and how fast will it be: before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "store/evaluations.h"

namespace rafter::lab {

// "AMD EPYC …, 2 cores, avx512": what measurements of this machine are filed under.
std::string machine_name(int threads);

// The roofs of this machine as filed in `evaluations`; measured now (two seconds) and filed if they are not,
// or if `again`. Errors: those of the measurement. That it cannot be filed is no error.
base::Result<store::MachineProfile> machine_profile_blocking(store::Evaluations* evaluations, int threads,
                                                             bool again);

// The shares of the roofs that steps reach: medians of what was measured on this machine, or what is usual.
struct Efficiency {
  double decode = 0.75;   // of the raw read, one row
  double prefill = 0.55;  // of the peak
  int measured_runs = 0;  // 0: the usual values
};
Efficiency efficiency_on(const store::Evaluations& evaluations, const std::string& machine, int threads,
                         const std::string& format);

struct FitOptions {
  int64_t context = 8192;
  int64_t memory_bytes = 0;     // to fit into; 0: what is available now, and the weights that are mapped
  int64_t prompt_tokens = 512;  // for the time to the first token
  bool precise = false;
  engine::KvQuantization kv_quantization = engine::KvQuantization::automatic;
  int threads = 0;
};

struct FitReport {
  int64_t context = 0;        // what was asked for
  int64_t model_context = 0;  // what the model has
  int64_t weight_bytes = 0;   // tensors that steps read
  int64_t cache_bytes = 0;    // one sequence of `context` positions
  int64_t scratch_bytes = 0;  // activations and kernels' scratch
  int64_t total_bytes = 0;
  int64_t memory_bytes = 0;  // to fit into
  bool fits = false;
  int64_t largest_context = 0;       // that fits; 0: none does
  std::string format;                // of most weight bytes
  int64_t bytes_per_token = 0;       // read by a step at `context`
  double predicted_tps = 0;          // decode at `context`
  double predicted_prefill_tps = 0;  // of prompt_tokens
  double predicted_first_token_seconds = 0;
  store::MachineProfile machine;
  Efficiency efficiency;
};

// Reads headers only; steps are planned but none runs. Errors: those of Engine::open.
base::Result<FitReport> predict_fit(std::shared_ptr<const format::Checkpoint> checkpoint,
                                    const FitOptions& options, const store::MachineProfile& machine,
                                    const store::Evaluations* evaluations);

// tokens per second of decode steps that read `bytes` and of prompts, by the roofs.
double predicted_decode_tps(double bytes, double operations, int rows, const store::MachineProfile& machine,
                            const Efficiency& efficiency);

}  // namespace rafter::lab

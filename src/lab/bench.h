// What a model does on this machine: prompts, decode steps and memory, each beside the roof it runs under.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "lab/machine_load.h"

namespace rafter::lab {

struct BenchOptions {
  std::vector<int64_t> prefill_tokens = {512};
  std::vector<int64_t> contexts = {128};  // of decode steps
  std::vector<int> rows = {1};            // of decode steps: sequences that step together
  int pairs = 5;                          // a raw read and some steps, in turn
  int steps_per_pair = 9;
  int prefill_passes = 3;
  std::function<void(const std::string&)> progress;  // what is being measured now; may be null
};

struct PrefillFigure {
  int64_t tokens = 0;
  double seconds = 0;      // median of the passes
  double tps = 0;          // tokens / seconds
  double tops = 0;         // 10^12 operations per second
  double compute_pct = 0;  // of the peak
  double spread_pct = 0;
};

struct DecodeFigure {
  int64_t context = 0;
  int rows = 1;
  int64_t bytes = 0;  // that one step reads
  double step_ms = 0, tps = 0, gbps = 0;
  double raw_read_gbps = 0;  // of the same pairs
  double roofline_pct = 0;   // of the raw read
  double compute_pct = 0;    // of the peak
  double spread_pct = 0;
};

struct BenchFigures {
  std::string device, kv, format;  // the executor, the cache's format, the one that most weight bytes have
  int threads = 0;
  double load_ms = 0;         // until steps could run; the caller's
  double first_token_ms = 0;  // the first step after that: 16 prompt tokens
  std::string logits_hash;    // of that step: xxh64 of the fp32 logits, 16 hex digits
  std::vector<PrefillFigure> prefill;
  std::vector<DecodeFigure> decode;
  double raw_read_gbps = 0;  // median over everything
  double peak_tops = 0;
  int64_t peak_rss_bytes = 0;   // mapped weights included
  int64_t anonymous_bytes = 0;  // at the end: caches, activations, everything that is no file
  int64_t cache_bytes = 0;      // at the end
  MachineLoad::Report load;
};

// The longest sequence that the options need.
int64_t positions_of(const BenchOptions& options);

// `engine` needs room for the most rows × (the longest context + 1) positions. Errors: the engine's.
base::Result<BenchFigures> measure_bench_blocking(engine::Engine& engine, const BenchOptions& options);

}  // namespace rafter::lab

// One decode step at a given context, measured against both roofs, and where its time went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "lab/machine_load.h"

namespace rafter::lab {

struct StepProbeOptions {
  int64_t context = 128;  // positions held when the step runs
  int rows = 1;           // sequences, one row each
  int pairs = 9;          // raw read and steps alternate this often
  int steps_per_pair = 15;
};

// Ops of one role, summed over the layers; barriers and the host are rows of their own. Microseconds of one
// step, the mean over the workers.
struct OpFigure {
  std::string op;      // role: "attn_norm+q_proj+k_proj+v_proj", "barriers", "host"
  std::string kernel;  // "qmv_q4g64"; empty for the last two
  int calls = 0;
  int64_t bytes = 0;  // weights and cache
  int64_t operations = 0;
  double us = 0;
  double gbps = 0;
  double share = 0;  // of the step, 0 … 1
};

struct StepFigures {
  std::string device;  // the executor
  int64_t context = 0;
  int rows = 0;
  std::string format;                                           // that most weight bytes have
  std::string kv;                                               // the cache's format
  int64_t bytes_per_token = 0, weight_bytes = 0, kv_bytes = 0;  // of one step
  int64_t operations = 0;
  double raw_read_gbps = 0;  // median over the pairs
  double kernel_gbps = 0;    // the matrix kernel alone on large matrices of the format that most bytes have
  double peak_tops = 0;      // of the best instruction with at least bf16 inputs
  double floor_ms = 0, ceiling_tps = 0;
  double step_ms = 0, tps = 0;  // tps: rows / step
  double compute_ms = 0, host_ms = 0, readback_ms = 0;
  double roofline_pct = 0;  // raw read's time for these bytes / step, median of the pairs' ratios
  double floor_pct = 0;
  double compute_pct = 0;   // operations / step / peak
  double spread_pct = 0;    // of the pairs' step times
  std::string nearer_roof;  // "memory" or "compute"
  std::vector<OpFigure> ops;
  engine::StepProfile profile;        // of one typical step, for a trace
  std::vector<std::string> op_names;  // of that profile, by index
  MachineLoad::Report load;
  uint64_t checksum = 0;
};

// Fills the sequences to the context with real steps first. `engine` needs room for rows × (context + 1)
// positions. Errors: the engine's (context, memory).
base::Result<StepFigures> measure_step(engine::Engine& engine, const StepProbeOptions& options);

// A Chrome trace (JSON, for Perfetto): one line per worker.
std::string trace_of(const StepFigures& figures);

}  // namespace rafter::lab

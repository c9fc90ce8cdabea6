// The raw read and a step in turn: what a step takes, as a ratio to what the machine gave at that moment.
#pragma once

#include <vector>

#include "lab/raw_read.h"
#include "lab/sequences.h"

namespace rafter::lab {

struct PairFigures {
  double raw_read_gbps = 0;  // median over the pairs
  double step_seconds = 0;   // median of the pairs' medians
  double memory_ratio = 0;   // raw read's time for the step's bytes / step, median of the pairs' ratios
  double spread_percent = 0;
  std::vector<double> host_seconds, compute_seconds;  // of every step
};

struct PairOptions {
  int pairs = 9;
  int steps_per_pair = 15;
};

// Bytes that the raw read of a pair covers, for steps that read `bytes`: enough to miss every cache, and few
// enough to be quick.
int64_t raw_read_bytes(int64_t bytes);

// `bytes`: what one step reads. Errors: the engine's.
base::Result<PairFigures> measure_pairs(engine::Engine& engine, Sequences& sequences, RawRead& raw,
                                        int64_t bytes, const PairOptions& options);

}  // namespace rafter::lab

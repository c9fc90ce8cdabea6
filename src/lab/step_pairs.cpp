#include "lab/step_pairs.h"

#include <algorithm>
#include <chrono>

#include "lab/statistics.h"

namespace rafter::lab {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int64_t raw_read_bytes(int64_t bytes) {
  constexpr int64_t kSmallest = int64_t{256} << 20, kLargest = int64_t{1} << 30;
  return std::clamp(bytes, kSmallest, kLargest);
}

base::Result<PairFigures> measure_pairs(engine::Engine& engine, Sequences& sequences, RawRead& raw,
                                        int64_t bytes, const PairOptions& options) {
  constexpr int kWarmSteps = 3;
  for (int warm = 0; warm < kWarmSteps; ++warm) RAFTER_TRY(sequences.step());
  const int64_t read_bytes = raw_read_bytes(bytes);
  PairFigures figures;
  std::vector<double> ratios, read_rates, pair_seconds;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const double rate = raw.bytes_read_by(read_bytes) / raw.read_seconds(read_bytes);
    std::vector<double> steps;
    for (int i = 0; i < options.steps_per_pair; ++i) {
      const auto start = std::chrono::steady_clock::now();
      RAFTER_TRY(sequences.step());
      steps.push_back(seconds_since(start));
      figures.compute_seconds.push_back(static_cast<double>(engine.last_step_times().compute_ns) * 1e-9);
      figures.host_seconds.push_back(steps.back() - figures.compute_seconds.back());
    }
    pair_seconds.push_back(median_of(steps));
    read_rates.push_back(rate);
    ratios.push_back(static_cast<double>(bytes) / rate / pair_seconds.back());
  }
  figures.raw_read_gbps = median_of(read_rates) * 1e-9;
  figures.step_seconds = median_of(pair_seconds);
  figures.memory_ratio = median_of(ratios);
  figures.spread_percent = spread_percent(pair_seconds);
  return figures;
}

}  // namespace rafter::lab

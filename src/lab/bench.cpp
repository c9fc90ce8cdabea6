#include "lab/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include <xxhash.h>

#include "base/check.h"
#include "lab/machine_probe.h"
#include "lab/raw_read.h"
#include "lab/sequences.h"
#include "lab/statistics.h"
#include "lab/step_costs.h"
#include "lab/step_pairs.h"

namespace rafter::lab {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A field of /proc/self/status, in bytes; 0 if it is not there.
int64_t memory_status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  return 0;
}

class Bench {
 public:
  Bench(engine::Engine& engine, const BenchOptions& options) : engine_(engine), options_(options) {}

  base::Result<BenchFigures> run() {
    const MachineLoad load;
    RAFTER_ASSIGN(tier_, base::select_tier());
    figures_.device = engine_.executor_name();
    figures_.kv = engine_.options().precise ? "f32" : "bf16";
    figures_.threads = engine_.options().threads;
    RAFTER_TRY(first_token());
    RAFTER_ASSIGN(auto team, base::WorkerTeam::create(figures_.threads));
    uint64_t checksum = 0;
    for (const PeakFigure& peak : measure_peaks(tier_, *team, checksum)) {
      if (peak.instruction != "int8 dot") figures_.peak_tops = std::max(figures_.peak_tops, peak.tops);
    }
    for (int64_t tokens : options_.prefill_tokens) RAFTER_TRY(prefill(tokens));
    for (int rows : options_.rows) RAFTER_TRY(decode(rows));
    std::vector<double> rates;
    for (const DecodeFigure& figure : figures_.decode) rates.push_back(figure.raw_read_gbps);
    figures_.raw_read_gbps = median_of(rates);
    figures_.load = load.report();
    return figures_;
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  base::Status first_token() {
    constexpr int64_t kPrompt = 16;
    say("first token");
    Sequences sequences(engine_, 1);
    const int64_t prompt = std::min(kPrompt, engine_.context_limit());
    const auto start = std::chrono::steady_clock::now();
    RAFTER_TRY(sequences.grow_to(prompt - 1));
    RAFTER_TRY(sequences.step());
    figures_.first_token_ms = seconds_since(start) * 1e3;
    const std::span<const float> logits = engine_.logits(0);
    figures_.logits_hash = fmt::format("{:016x}", XXH64(logits.data(), logits.size_bytes(), 0));
    return {};
  }

  base::Status prefill(int64_t tokens) {
    say(fmt::format("prompt of {} tokens", tokens));
    std::vector<double> seconds;
    for (int pass = 0; pass <= options_.prefill_passes; ++pass) {  // the first one warms up
      Sequences sequences(engine_, 1);
      const auto start = std::chrono::steady_clock::now();
      RAFTER_TRY(sequences.grow_to(tokens));
      if (pass > 0) seconds.push_back(seconds_since(start));
    }
    PrefillFigure figure;
    figure.tokens = tokens;
    figure.seconds = median_of(seconds);
    figure.spread_pct = spread_percent(seconds);
    figure.tps = static_cast<double>(tokens) / figure.seconds;
    RAFTER_ASSIGN(const double operations, prefill_operations(tokens));
    figure.tops = operations * 1e-12 / figure.seconds;
    figure.compute_pct = 100 * figure.tops / figures_.peak_tops;
    figures_.prefill.push_back(figure);
    return {};
  }

  // A row of a chunk sees half of the chunk on average, and all that stands before it.
  base::Result<double> prefill_operations(int64_t tokens) {
    const int64_t chunk = engine_.options().row_capacity;
    double operations = 0;
    for (int64_t at = 0; at < tokens; at += chunk) {
      const int64_t rows = std::min(chunk, tokens - at);
      RAFTER_ASSIGN(const plan::Plan* plan, engine_.plan_for(static_cast<int>(rows)));
      operations += static_cast<double>(costs_of(*plan, rows, 0, at + (rows + 1) / 2).all.operations);
    }
    return operations;
  }

  base::Status decode(int rows) {
    std::vector<int64_t> contexts = options_.contexts;
    std::sort(contexts.begin(), contexts.end());  // the sequences only grow
    RAFTER_ASSIGN(const plan::Plan* plan, engine_.plan_for(rows));
    Sequences sequences(engine_, rows);
    std::optional<RawRead> raw;
    for (int64_t context : contexts) {
      say(fmt::format("context {}, {} row{}", context, rows, rows == 1 ? "" : "s"));
      RAFTER_TRY(sequences.grow_to(context));
      const StepCosts costs = costs_of(*plan, rows, rows, context + 1);
      figures_.format = costs.main_format.name();
      if (!raw) {
        RAFTER_ASSIGN(raw, RawRead::create(raw_read_bytes(costs.bytes()), tier_, figures_.threads));
        raw->choose_reader();
      }
      note_memory(*raw);
      RAFTER_ASSIGN(const PairFigures pairs, measure_pairs(engine_, sequences, *raw, costs.bytes(),
                                                           {options_.pairs, options_.steps_per_pair}));
      DecodeFigure figure{context, rows, costs.bytes()};
      figure.step_ms = pairs.step_seconds * 1e3;
      figure.tps = rows / pairs.step_seconds;
      figure.gbps = static_cast<double>(figure.bytes) * 1e-9 / pairs.step_seconds;
      figure.raw_read_gbps = pairs.raw_read_gbps;
      figure.roofline_pct = 100 * pairs.memory_ratio;
      figure.compute_pct =
          100 * static_cast<double>(costs.all.operations) * 1e-12 / pairs.step_seconds / figures_.peak_tops;
      figure.spread_pct = pairs.spread_percent;
      figures_.decode.push_back(figure);
    }
    return {};
  }

  // The probe's own buffer is no part of what the model takes.
  void note_memory(const RawRead& raw) {
    figures_.peak_rss_bytes = std::max(figures_.peak_rss_bytes, memory_status("VmRSS") - raw.bytes());
    figures_.anonymous_bytes = std::max(figures_.anonymous_bytes, memory_status("RssAnon") - raw.bytes());
    figures_.cache_bytes = std::max(figures_.cache_bytes, engine_.cache_bytes_in_use());
  }

  engine::Engine& engine_;
  const BenchOptions& options_;
  base::CpuTier tier_ = base::CpuTier::portable;
  BenchFigures figures_;
};

}  // namespace

int64_t positions_of(const BenchOptions& options) {
  int64_t most = 16;
  for (int64_t tokens : options.prefill_tokens) most = std::max(most, tokens);
  for (int64_t context : options.contexts) most = std::max(most, context);
  return most + 1;
}

base::Result<BenchFigures> measure_bench_blocking(engine::Engine& engine, const BenchOptions& options) {
  return Bench(engine, options).run();
}

}  // namespace rafter::lab

#include "lab/fit.h"

#include <algorithm>
#include <ctime>

#include "base/cpu_info.h"
#include "device/host_memory.h"
#include "engine/byte_account.h"
#include "lab/roofs.h"
#include "lab/statistics.h"
#include "lab/step_costs.h"

namespace rafter::lab {
namespace {

constexpr int64_t kAnyCache = int64_t{1} << 40;  // addresses only: nothing is touched

// An engine that is planned and bound but never steps.
base::Result<std::unique_ptr<engine::Engine>> planned_engine(
    const std::shared_ptr<const format::Checkpoint>& checkpoint, const FitOptions& options, int64_t context) {
  engine::EngineOptions engine_options;
  engine_options.context_limit = context;
  engine_options.threads = options.threads;
  engine_options.precise = options.precise;
  engine_options.kv_quantization = options.kv_quantization;
  engine_options.max_sequences = 1;
  engine_options.cache_bytes = kAnyCache;
  engine_options.populate = false;
  RAFTER_ASSIGN(auto engine, engine::Engine::open(checkpoint, engine_options));
  RAFTER_TRY(engine->plan_for(engine->options().row_capacity));  // the scratch of prompts
  return engine;
}

int64_t beside_weights(const engine::Engine& engine, int64_t context) {
  return engine.cache_bytes_for(context) + engine.scratch_bytes();
}

// The most positions whose cache and scratch take at most `bytes`; 0 if none do.
base::Result<int64_t> largest_context(const std::shared_ptr<const format::Checkpoint>& checkpoint,
                                      const FitOptions& options, int64_t most, int64_t bytes) {
  int64_t fitting = 0;
  for (int64_t too_many = most + 1; too_many - fitting > 1;) {
    // The whole first, then halves: most models fit at once.
    const int64_t context = too_many == most + 1 && fitting == 0 ? most : fitting + (too_many - fitting) / 2;
    RAFTER_ASSIGN(const auto engine, planned_engine(checkpoint, options, context));
    if (beside_weights(*engine, context) <= bytes) {
      fitting = context;
    } else {
      too_many = context;
    }
  }
  return fitting;
}

// A row of the prompt sees half of it on average.
base::Result<double> prompt_seconds(engine::Engine& engine, int64_t tokens, const FitReport& report) {
  const int64_t chunk = engine.options().row_capacity;
  double seconds = 0;
  for (int64_t at = 0; at < tokens; at += chunk) {
    const int64_t rows = std::min(chunk, tokens - at);
    RAFTER_ASSIGN(const plan::Plan* plan, engine.plan_for(static_cast<int>(rows)));
    const StepCosts costs = costs_of(*plan, rows, 1, at + (rows + 1) / 2);
    const double arithmetic = static_cast<double>(costs.all.operations) /
                              (report.machine.peak_tops * 1e12 * report.efficiency.prefill);
    const double memory =
        static_cast<double>(costs.bytes()) / (report.machine.raw_read_gbps * 1e9 * report.efficiency.decode);
    seconds += std::max(arithmetic, memory);
  }
  return seconds;
}

}  // namespace

std::string machine_name(int threads) {
  const auto tier = base::select_tier();
  return fmt::format("{}, {} thread{}, {}", base::cpu_model_name(), threads, threads == 1 ? "" : "s",
                     tier.ok() ? base::cpu_tier_name(*tier) : "unknown");
}

base::Result<store::MachineProfile> machine_profile_blocking(store::Evaluations* evaluations, int threads,
                                                             bool again) {
  if (threads <= 0) threads = base::usable_cores();
  const std::string name = machine_name(threads);
  if (evaluations != nullptr && !again) {
    const auto filed = evaluations->profile_of(name, threads);
    if (filed.ok() && *filed) return **filed;
  }
  RAFTER_ASSIGN(const base::CpuTier tier, base::select_tier());
  RAFTER_ASSIGN(const Roofs roofs, measure_roofs_blocking(tier, threads));
  const store::MachineProfile profile{
      name, threads, std::time(nullptr), roofs.raw_read_gbps, roofs.peak_tops, roofs.load.busy};
  if (evaluations != nullptr) (void)evaluations->put_profile(profile);
  return profile;
}

Efficiency efficiency_on(const store::Evaluations& evaluations, const std::string& machine, int threads,
                         const std::string& format) {
  constexpr int64_t kNewest = 200;
  const auto runs = evaluations.list({"", "", machine, "bench", kNewest});
  std::vector<double> decode, prefill;
  Efficiency efficiency;
  if (!runs.ok()) return efficiency;
  for (const store::EvaluationRun& run : *runs) {
    if (run.busy || run.format != format || run.threads != threads) continue;
    ++efficiency.measured_runs;
    for (const store::EvaluationFigure& figure : run.figures) {
      if (figure.metric == "decode" && figure.rows == 1) decode.push_back(figure.roofline_pct / 100);
      if (figure.metric == "prefill") prefill.push_back(figure.compute_pct / 100);
    }
  }
  constexpr double kLeast = 0.01, kMost = 1.0;  // a figure outside is one of another machine's state
  if (!decode.empty()) efficiency.decode = std::clamp(median_of(decode), kLeast, kMost);
  if (!prefill.empty()) efficiency.prefill = std::clamp(median_of(prefill), kLeast, kMost);
  return efficiency;
}

double predicted_decode_tps(double bytes, double operations, int rows, const store::MachineProfile& machine,
                            const Efficiency& efficiency) {
  const double memory = bytes / (machine.raw_read_gbps * 1e9 * efficiency.decode);
  const double arithmetic = operations / (machine.peak_tops * 1e12 * efficiency.prefill);
  return rows / std::max(memory, arithmetic);
}

base::Result<FitReport> predict_fit(std::shared_ptr<const format::Checkpoint> checkpoint,
                                    const FitOptions& options, const store::MachineProfile& machine,
                                    const store::Evaluations* evaluations) {
  RAFTER_ASSIGN(const std::shared_ptr<const model::Model> model, model::load_model(*checkpoint));
  FitReport report;
  report.machine = machine;
  report.model_context = model->info().max_positions;
  report.context = options.context;
  if (report.model_context > 0) report.context = std::min(report.context, report.model_context);
  const engine::ByteAccount account = engine::account_bytes(*checkpoint, *model);
  report.weight_bytes = account.total_bytes - account.unused_bytes;
  RAFTER_ASSIGN(const auto engine, planned_engine(checkpoint, options, report.context));
  report.cache_bytes = engine->cache_bytes_for(report.context);
  report.scratch_bytes = engine->scratch_bytes();
  report.total_bytes = report.weight_bytes + report.cache_bytes + report.scratch_bytes;
  report.memory_bytes =
      options.memory_bytes > 0 ? options.memory_bytes : static_cast<int64_t>(device::available_memory());
  report.fits = report.total_bytes <= report.memory_bytes;
  const int64_t most = report.model_context > 0 ? report.model_context : report.context;
  RAFTER_ASSIGN(report.largest_context,
                largest_context(checkpoint, options, most, report.memory_bytes - report.weight_bytes));

  RAFTER_ASSIGN(const plan::Plan* plan, engine->plan_for(1));
  const StepCosts costs = costs_of(*plan, 1, 1, report.context);
  report.format = costs.main_format.name();
  report.bytes_per_token = costs.bytes();
  if (evaluations != nullptr)
    report.efficiency = efficiency_on(*evaluations, machine.machine, machine.threads, report.format);
  report.predicted_tps =
      predicted_decode_tps(static_cast<double>(costs.bytes()), static_cast<double>(costs.all.operations), 1,
                           machine, report.efficiency);
  const int64_t prompt = std::min(options.prompt_tokens, report.context);
  RAFTER_ASSIGN(const double seconds, prompt_seconds(*engine, prompt, report));
  report.predicted_prefill_tps = static_cast<double>(prompt) / seconds;
  report.predicted_first_token_seconds = seconds;
  return report;
}

}  // namespace rafter::lab

#include "lab/step_probe.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "lab/machine_probe.h"
#include "lab/matmul_probe.h"
#include "lab/raw_read.h"
#include "lab/sequences.h"
#include "lab/statistics.h"
#include "lab/step_costs.h"
#include "lab/step_pairs.h"
#include "plan/print.h"

namespace rafter::lab {
namespace {

constexpr int kProfiledSteps = 15;

// Means over `profiles` of each op's time and of the waiting before it.
void attribute(const plan::Plan& plan, const std::vector<engine::StepProfile>& profiles, int64_t rows,
               int64_t context, double host_us, StepFigures& figures) {
  std::vector<std::string> order;
  std::map<std::string, OpFigure> by_role;
  const std::vector<plan::StepDescription> steps = plan::describe(plan, rows, rows, context);
  double region_us = 0, busy_us = 0;
  const double count = static_cast<double>(profiles.size()) * profiles[0].workers * 1e3;  // ns → mean us
  for (const engine::StepProfile& profile : profiles) region_us += static_cast<double>(profile.region_ns);
  region_us /= static_cast<double>(profiles.size()) * 1e3;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const std::string key = plan.ops[i].role + "\n" + steps[i].kernel;
    if (!by_role.contains(key)) {
      order.push_back(key);
      by_role[key].op = plan.ops[i].role;
      by_role[key].kernel = steps[i].kernel;
    }
    OpFigure& figure = by_role[key];
    ++figure.calls;
    figure.bytes += steps[i].cost.weight_bytes + steps[i].cost.cache_bytes;
    figure.operations += steps[i].cost.operations;
    for (const engine::StepProfile& profile : profiles) {
      for (int worker = 0; worker < profile.workers; ++worker) {
        const engine::StepProfile::Span& span = profile.span(worker, static_cast<int>(i));
        figure.us += static_cast<double>(span.end - span.begin) / count;
      }
    }
  }
  for (const std::string& key : order) {
    busy_us += by_role[key].us;
    figures.ops.push_back(by_role[key]);
  }
  const int barriers =
      static_cast<int>(std::count(plan.barrier_before.begin(), plan.barrier_before.end(), true));
  // What is left of the region: waiting at barriers, for the team to start, and for its last worker.
  figures.ops.push_back({"barriers", "", barriers, 0, 0, std::max(0.0, region_us - busy_us)});
  figures.ops.push_back({"host", "", 1, 0, 0, host_us});
  for (OpFigure& figure : figures.ops) {
    figure.gbps = figure.us > 0 ? static_cast<double>(figure.bytes) * 1e-3 / figure.us : 0;
    figure.share = figure.us / (region_us + host_us);
  }
}

}  // namespace

base::Result<StepFigures> measure_step(engine::Engine& engine, const StepProbeOptions& options) {
  const MachineLoad load;
  RAFTER_ASSIGN(const base::CpuTier tier, base::select_tier());
  RAFTER_ASSIGN(const plan::Plan* plan, engine.plan_for(options.rows));
  // A row attends to itself, too.
  const StepCosts costs = costs_of(*plan, options.rows, options.rows, options.context + 1);
  StepFigures figures;
  figures.device = engine.executor_name();
  figures.context = options.context;
  figures.rows = options.rows;
  figures.kv = engine.cache_format();
  figures.format = costs.main_format.name();
  figures.weight_bytes = costs.all.weight_bytes;
  figures.kv_bytes = costs.all.cache_bytes;
  figures.bytes_per_token = costs.all.weight_bytes + costs.all.cache_bytes;
  figures.operations = costs.all.operations;

  Sequences sequences(engine, options.rows);
  RAFTER_TRY(sequences.grow_to(options.context));
  const int threads = engine.options().threads;
  RAFTER_ASSIGN(RawRead raw, RawRead::create(raw_read_bytes(figures.bytes_per_token), tier, threads));
  raw.choose_reader();
  RAFTER_ASSIGN(const PairFigures pairs, measure_pairs(engine, sequences, raw, figures.bytes_per_token,
                                                       {options.pairs, options.steps_per_pair}));

  std::vector<engine::StepProfile> profiles(kProfiledSteps);
  for (engine::StepProfile& profile : profiles) {
    engine.set_profile(&profile);
    const base::Status status = sequences.step();
    engine.set_profile(nullptr);
    RAFTER_TRY(status);
  }
  // The typical one is drawn; the slowest quarter (another program had the core) counts in none.
  std::sort(profiles.begin(), profiles.end(),
            [](const auto& a, const auto& b) { return a.region_ns < b.region_ns; });
  profiles.resize(profiles.size() * 3 / 4);
  attribute(*plan, profiles, options.rows, options.context + 1, median_of(pairs.host_seconds) * 1e6, figures);
  figures.profile = profiles[profiles.size() / 2];
  for (const plan::Op& op : plan->ops) {
    figures.op_names.push_back(op.layer >= 0 ? fmt::format("{} {}", op.layer, op.role) : op.role);
  }

  const auto bytes = static_cast<double>(figures.bytes_per_token);
  figures.raw_read_gbps = pairs.raw_read_gbps;
  figures.step_ms = pairs.step_seconds * 1e3;
  figures.tps = options.rows * 1e3 / figures.step_ms;
  figures.host_ms = median_of(pairs.host_seconds) * 1e3;
  figures.compute_ms = median_of(pairs.compute_seconds) * 1e3;
  figures.ceiling_tps = options.rows * figures.raw_read_gbps * 1e9 / bytes;
  figures.roofline_pct = 100 * pairs.memory_ratio;
  figures.spread_pct = pairs.spread_percent;
  constexpr double kLargeMatrix = 32;
  if (auto kernel = measure_matmul(decode_shape(costs.main_format, kLargeMatrix), tier, threads, raw);
      kernel.ok()) {
    figures.kernel_gbps = kernel->gbps;
    figures.floor_ms = bytes * 1e-6 / kernel->gbps;
    figures.floor_pct = 100 * figures.floor_ms / figures.step_ms;
  }
  RAFTER_ASSIGN(auto team, base::WorkerTeam::create(threads));
  for (const PeakFigure& peak : measure_peaks(tier, *team, figures.checksum)) {
    if (peak.instruction != "int8 dot") figures.peak_tops = std::max(figures.peak_tops, peak.tops);
  }
  figures.compute_pct =
      100 * static_cast<double>(figures.operations) * 1e-9 / figures.step_ms / figures.peak_tops;
  figures.nearer_roof = figures.compute_pct > figures.roofline_pct ? "compute" : "memory";
  figures.checksum += raw.checksum();
  figures.load = load.report();
  return figures;
}

std::string trace_of(const StepFigures& figures) {
  std::string events;
  const auto add = [&](const std::string& name, int worker, int64_t begin, int64_t end) {
    if (end <= begin) return;
    events +=
        fmt::format("{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
                    events.empty() ? "" : ",\n", name, worker, static_cast<double>(begin) * 1e-3,
                    static_cast<double>(end - begin) * 1e-3);
  };
  const engine::StepProfile& profile = figures.profile;
  for (int worker = 0; worker < profile.workers; ++worker) {
    for (int op = 0; op < profile.ops; ++op) {
      const engine::StepProfile::Span& span = profile.span(worker, op);
      add("barrier", worker, span.arrived, span.begin);
      add(figures.op_names[static_cast<size_t>(op)], worker, span.begin, span.end);
    }
  }
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace rafter::lab

#include "lab/step_probe.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/check.h"
#include "lab/machine_probe.h"
#include "lab/matmul_probe.h"
#include "lab/raw_read.h"
#include "lab/statistics.h"
#include "plan/print.h"

namespace rafter::lab {
namespace {

constexpr int64_t kSmallestRead = int64_t{256} << 20, kLargestRead = int64_t{1} << 30;
constexpr int kProfiledSteps = 15;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The measured sequences: filled to the context, stepped once and cut back, over and over.
class Sequences {
 public:
  explicit Sequences(engine::Engine& engine) : engine_(engine) {}
  ~Sequences() {
    for (int32_t sequence : sequences_) engine_.release_sequence(sequence);
  }

  base::Status fill(const StepProbeOptions& options) {
    for (int i = 0; i < options.rows; ++i) {
      RAFTER_ASSIGN(const int32_t sequence, engine_.create_sequence());
      sequences_.push_back(sequence);
      std::vector<engine::Row> rows;
      for (int64_t at = 0; at < options.context;) {
        rows.clear();
        const int64_t end = std::min<int64_t>(options.context, at + engine_.options().row_capacity);
        for (; at < end; ++at) rows.push_back({token(i, at), static_cast<int32_t>(at), sequence});
        RAFTER_TRY(engine_.step(rows));
      }
    }
    for (int i = 0; i < options.rows; ++i) {
      step_.push_back({token(i, options.context), static_cast<int32_t>(options.context),
                       sequences_[static_cast<size_t>(i)], true});
    }
    return {};
  }

  // One step of every sequence; they stand at the context again afterwards.
  base::Status step() {
    RAFTER_TRY(engine_.step(step_));
    for (int32_t sequence : sequences_) engine_.truncate(sequence, step_[0].position);
    return {};
  }

 private:
  int32_t token(int sequence, int64_t position) const {
    return static_cast<int32_t>((position * 7919 + sequence * 104729 + 1) % engine_.vocabulary_size());
  }

  engine::Engine& engine_;
  std::vector<int32_t> sequences_;
  std::vector<engine::Row> step_;
};

// The sums of the step's ops, and the format that most of its weight bytes have.
struct StepCosts {
  kernels::Cost all;
  tensor::NumberFormat main_format;
};

StepCosts costs_of(const plan::Plan& plan, int64_t rows, int64_t context) {
  StepCosts costs;
  std::map<std::string, int64_t> by_format;
  int64_t most = 0;
  for (const plan::Op& op : plan.ops) {
    const kernels::Cost cost = plan::op_cost(plan, op, rows, rows, context);
    costs.all.weight_bytes += cost.weight_bytes;
    costs.all.cache_bytes += cost.cache_bytes;
    costs.all.operations += cost.operations;
    const auto* matmul = std::get_if<kernels::MatmulArgs>(&op.args);
    for (int s = 0; matmul != nullptr && s < matmul->segment_count; ++s) {
      const tensor::MatrixView& weight = matmul->segments[s].weight;
      int64_t& bytes = by_format[weight.format.name()];
      bytes += weight.bytes();
      if (bytes > most) most = bytes, costs.main_format = weight.format;
    }
  }
  return costs;
}

// Means over `profiles` of each op's time and of the waiting before it.
void attribute(const plan::Plan& plan, const std::vector<engine::StepProfile>& profiles, int64_t rows,
               int64_t context, double host_us, StepFigures& figures) {
  std::vector<std::string> order;
  std::map<std::string, OpFigure> by_role;
  const std::vector<plan::StepDescription> steps = plan::describe(plan, rows, context);
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
  const StepCosts costs = costs_of(*plan, options.rows, options.context + 1);
  StepFigures figures;
  figures.device = engine.executor_name();
  figures.context = options.context;
  figures.rows = options.rows;
  figures.kv = engine.options().precise ? "f32" : "bf16";
  figures.weight_bytes = costs.all.weight_bytes;
  figures.kv_bytes = costs.all.cache_bytes;
  figures.bytes_per_token = costs.all.weight_bytes + costs.all.cache_bytes;
  figures.operations = costs.all.operations;

  Sequences sequences(engine);
  RAFTER_TRY(sequences.fill(options));
  const int threads = engine.options().threads;
  const int64_t read_bytes = std::clamp(figures.bytes_per_token, kSmallestRead, kLargestRead);
  RAFTER_ASSIGN(RawRead raw, RawRead::create(read_bytes, tier, threads));
  raw.choose_reader();
  for (int warm = 0; warm < 3; ++warm) RAFTER_TRY(sequences.step());

  std::vector<double> ratios, read_rates, pair_seconds, host, compute;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const double rate = raw.bytes_read_by(read_bytes) / raw.read_seconds(read_bytes);
    std::vector<double> steps;
    for (int i = 0; i < options.steps_per_pair; ++i) {
      const auto start = std::chrono::steady_clock::now();
      RAFTER_TRY(sequences.step());
      steps.push_back(seconds_since(start));
      host.push_back(steps.back() - static_cast<double>(engine.last_step_times().compute_ns) * 1e-9);
      compute.push_back(static_cast<double>(engine.last_step_times().compute_ns) * 1e-9);
    }
    pair_seconds.push_back(median_of(steps));
    read_rates.push_back(rate);
    ratios.push_back(static_cast<double>(figures.bytes_per_token) / rate / pair_seconds.back());
  }

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
  attribute(*plan, profiles, options.rows, options.context + 1, median_of(host) * 1e6, figures);
  figures.profile = profiles[profiles.size() / 2];
  for (const plan::Op& op : plan->ops) {
    figures.op_names.push_back(op.layer >= 0 ? fmt::format("{} {}", op.layer, op.role) : op.role);
  }

  const auto bytes = static_cast<double>(figures.bytes_per_token);
  figures.raw_read_gbps = median_of(read_rates) * 1e-9;
  figures.step_ms = median_of(pair_seconds) * 1e3;
  figures.tps = options.rows * 1e3 / figures.step_ms;
  figures.host_ms = median_of(host) * 1e3;
  figures.compute_ms = median_of(compute) * 1e3;
  figures.ceiling_tps = options.rows * figures.raw_read_gbps * 1e9 / bytes;
  figures.roofline_pct = 100 * median_of(ratios);
  figures.spread_pct = spread_percent(pair_seconds);
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

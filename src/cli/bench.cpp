// rafter bench: what a model does on this machine, recorded.
#include "lab/bench.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/evaluation_run.h"
#include "cli/find_model.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "lab/fit.h"
#include "lab/step_costs.h"

namespace rafter::cli {
namespace {

struct BenchFlags {
  std::string model, note;
  lab::BenchOptions bench;
  EngineFlags engine;
  bool json = false, unrecorded = false;
};

// What the roofs and earlier runs let expect, before anything is measured.
base::Result<std::vector<double>> predict_decode(engine::Engine& engine, const lab::BenchOptions& options,
                                                 const store::MachineProfile& machine,
                                                 const store::Evaluations* evaluations) {
  std::vector<double> predicted;
  for (int rows : options.rows) {
    RAFTER_ASSIGN(const plan::Plan* plan, engine.plan_for(rows));
    for (int64_t context : options.contexts) {
      const lab::StepCosts costs = lab::costs_of(*plan, rows, rows, context + 1);
      lab::Efficiency efficiency;
      if (evaluations != nullptr) {
        efficiency =
            lab::efficiency_on(*evaluations, machine.machine, machine.threads, costs.main_format.name());
      }
      predicted.push_back(lab::predicted_decode_tps(static_cast<double>(costs.bytes()),
                                                    static_cast<double>(costs.all.operations), rows, machine,
                                                    efficiency));
    }
  }
  return predicted;
}

store::EvaluationRun run_of(const NamedModel& named, const BenchFlags& flags,
                            const lab::BenchFigures& figures, const std::vector<double>& predicted) {
  store::EvaluationRun run = begin_run("bench", named, figures.threads, figures.load);
  run.device = figures.device;
  run.format = figures.format;
  run.kv = figures.kv;
  run.raw_read_gbps = figures.raw_read_gbps;
  run.peak_tops = figures.peak_tops;
  run.load_ms = figures.load_ms;
  run.first_token_ms = figures.first_token_ms;
  run.peak_rss_bytes = figures.peak_rss_bytes;
  run.logits_hash = figures.logits_hash;
  run.note = flags.note;
  for (const lab::PrefillFigure& f : figures.prefill) {
    run.figures.push_back({"prefill", f.tokens, 1, f.seconds, f.tps, 0, 0, f.compute_pct, f.spread_pct, 0});
  }
  for (size_t i = 0; i < figures.decode.size(); ++i) {
    const lab::DecodeFigure& f = figures.decode[i];
    run.figures.push_back({"decode", f.context, f.rows, f.step_ms * 1e-3, f.tps, f.gbps, f.roofline_pct,
                           f.compute_pct, f.spread_pct, i < predicted.size() ? predicted[i] : 0});
  }
  return run;
}

void print_json(const store::EvaluationRun& run, const lab::BenchFigures& figures) {
  using nlohmann::ordered_json;
  ordered_json prefill = ordered_json::array(), decode = ordered_json::array();
  for (const lab::PrefillFigure& f : figures.prefill) {
    prefill.push_back({{"tokens", f.tokens},
                       {"tps", f.tps},
                       {"tops", f.tops},
                       {"compute_pct", f.compute_pct},
                       {"spread_pct", f.spread_pct}});
  }
  for (const lab::DecodeFigure& f : figures.decode) {
    decode.push_back({{"ctx", f.context},
                      {"rows", f.rows},
                      {"tps", f.tps},
                      {"step_ms", f.step_ms},
                      {"bytes", f.bytes},
                      {"gbps", f.gbps},
                      {"raw_read_gbps", f.raw_read_gbps},
                      {"roofline_pct", f.roofline_pct},
                      {"compute_pct", f.compute_pct},
                      {"spread_pct", f.spread_pct}});
  }
  const ordered_json json = {{"run", run.id},
                             {"model", run.model},
                             {"device", run.device},
                             {"commit", run.commit},
                             {"machine", run.machine},
                             {"format", run.format},
                             {"kv", run.kv},
                             {"load_ms", figures.load_ms},
                             {"first_token_ms", figures.first_token_ms},
                             {"prefill", prefill},
                             {"decode", decode},
                             {"raw_read_gbps", figures.raw_read_gbps},
                             {"peak_tops", figures.peak_tops},
                             {"peak_rss_bytes", figures.peak_rss_bytes},
                             {"anonymous_bytes", figures.anonymous_bytes},
                             {"cache_bytes", figures.cache_bytes},
                             {"logits_hash", figures.logits_hash},
                             {"busy", figures.load.busy},
                             {"others_pct", figures.load.others_percent},
                             {"load_before", figures.load.load_before}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const store::EvaluationRun& run, const lab::BenchFigures& figures) {
  std::cout << fmt::format("{} ({}) on {}, {} cache\n", one_line(run.model), run.format, run.device, run.kv);
  std::cout << fmt::format("  load {:.0f} ms, then the first token of 16 after {:.0f} ms\n", figures.load_ms,
                           figures.first_token_ms);
  std::cout << fmt::format("  memory {} resident, {} of it no file: {} cache\n",
                           format_bytes(figures.peak_rss_bytes), format_bytes(figures.anonymous_bytes),
                           format_bytes(figures.cache_bytes));
  std::cout << fmt::format("\n  {:<8} {:>8} {:>5} {:>10} {:>10} {:>8} {:>9} {:>9} {:>8}\n", "", "tokens",
                           "rows", "tok/s", "predicted", "GB/s", "memory", "compute", "spread");
  for (const store::EvaluationFigure& f : run.figures) {
    std::cout << fmt::format(
        "  {:<8} {:>8} {:>5} {:>10.1f} {:>10} {:>8} {:>8}% {:>8.1f}% {:>7.1f}%\n", f.metric, f.tokens, f.rows,
        f.tps, f.predicted_tps > 0 ? fmt::format("{:.1f}", f.predicted_tps) : "",
        f.gbps > 0 ? fmt::format("{:.1f}", f.gbps) : "",
        f.roofline_pct > 0 ? fmt::format("{:.1f}", f.roofline_pct) : "-", f.compute_pct, f.spread_pct);
  }
  std::cout << fmt::format("\n  roofs: {:.1f} GB/s raw read in the same pairs, {:.2f} T/s\n",
                           figures.raw_read_gbps, figures.peak_tops);
  if (figures.load.busy) {
    std::cout << fmt::format(
        "  busy: other programs took {:.0f} % of the cores meanwhile; load {:.1f} before\n",
        figures.load.others_percent, figures.load.load_before);
  }
  if (run.id > 0) std::cout << fmt::format("  recorded as run {}: rafter evals\n", run.id);
}

base::Status run(BenchFlags flags) {
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  auto evaluations = store::Evaluations::open_default();
  store::Evaluations* filed = evaluations.ok() ? &*evaluations : nullptr;
  RAFTER_ASSIGN(const store::MachineProfile machine,
                lab::machine_profile_blocking(filed, flags.engine.threads, false));
  flags.engine.context = lab::positions_of(flags.bench);
  flags.engine.sequences = *std::max_element(flags.bench.rows.begin(), flags.bench.rows.end());
  const auto start = std::chrono::steady_clock::now();
  RAFTER_ASSIGN(const auto engine, open_engine(named.path, flags.engine, true));
  const double load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::sort(flags.bench.contexts.begin(), flags.bench.contexts.end());
  if (stderr_is_terminal())
    flags.bench.progress = [](const std::string& what) {
      std::cerr << "\r\033[K" << what << " …" << std::flush;
    };
  // Predicted with what was known before; the figures come after.
  RAFTER_ASSIGN(const std::vector<double> predicted, predict_decode(*engine, flags.bench, machine, filed));
  RAFTER_ASSIGN(lab::BenchFigures figures, lab::measure_bench_blocking(*engine, flags.bench));
  if (flags.bench.progress) std::cerr << "\r\033[K" << std::flush;
  figures.load_ms = load_ms;
  store::EvaluationRun record = run_of(named, flags, figures, predicted);
  if (!flags.unrecorded) {
    if (!evaluations.ok()) return evaluations.error();
    RAFTER_ASSIGN(record.id, evaluations->add(record));
  }
  flags.json ? print_json(record, figures) : print_text(record, figures);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  constexpr int64_t kMostPositions = 16 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("--prefill", flags->bench.prefill_tokens, "prompt lengths (default 512)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, kMostPositions));
  app.add_option("--ctx", flags->bench.contexts, "positions held when decode steps run (default 128)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{0}, kMostPositions));
  app.add_option("--rows", flags->bench.rows, "sequences that step together (default 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, 512));
  app.add_option("--pairs", flags->bench.pairs, "times that a raw read and steps alternate (default 5)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--steps", flags->bench.steps_per_pair, "steps of each pair (default 9)")
      ->check(CLI::Range(1, 10000));
  app.add_option("--passes", flags->bench.prefill_passes, "times that each prompt is computed (default 3)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--precise", flags->engine.precise, "fp32-accurate products and an fp32 cache");
  add_kv_quant_flag(app, flags->engine);
  app.add_option("--note", flags->note, "a remark kept with the record");
  app.add_flag("--no-record", flags->unrecorded, "leave the evaluation database alone");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kBenchVerb{"bench", "measure a model: load, prompts, decode steps, memory; and record it",
                      "  rafter bench smollm2\n"
                      "  rafter bench smollm2 --ctx 128,4096 --rows 1,2,4,8 --prefill 512,2048\n"
                      "  rafter bench smollm2 --json | jq '.decode[0].roofline_pct'\n"
                      "  rafter evals                 # what was recorded\n",
                      define};

}  // namespace rafter::cli

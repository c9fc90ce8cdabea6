// rafter roofline table: one decode step of several models side by side, recorded.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/evaluation_run.h"
#include "cli/find_model.h"
#include "cli/progress_bar.h"
#include "cli/roofline.h"
#include "cli/terminal.h"
#include "lab/step_probe.h"
#include "store/evaluations.h"
#include "store/registry.h"

namespace rafter::cli {
namespace {

struct TableFlags {
  std::vector<std::string> models;
  std::vector<int64_t> contexts = {128};
  lab::StepProbeOptions probe;
  EngineFlags engine;
  bool json = false, unrecorded = false;
};

// Every registered model that runs here, or the named ones.
base::Result<std::vector<NamedModel>> chosen_models(const TableFlags& flags) {
  std::vector<NamedModel> chosen;
  for (const std::string& query : flags.models) {
    RAFTER_ASSIGN(NamedModel named, find_model(query));
    chosen.push_back(std::move(named));
  }
  if (!flags.models.empty()) return chosen;
  RAFTER_ASSIGN(const store::ModelRegistry registry, store::ModelRegistry::open_default());
  RAFTER_ASSIGN(const std::vector<store::ModelRecord> records, registry.list());
  for (const store::ModelRecord& record : records) {
    if (record.supported && !record.missing) chosen.push_back({record.path, record.name});
  }
  if (!chosen.empty()) return chosen;
  return base::Error{base::ErrorCode::not_found, "no models are known", "roofline table",
                     "name some, or let `rafter scan` find them"};
}

store::EvaluationRun run_of(const NamedModel& named, const lab::StepFigures& figures, int threads) {
  store::EvaluationRun run = begin_run("roofline", named, threads, figures.load);
  run.device = figures.device;
  run.format = figures.format;
  run.kv = figures.kv;
  run.raw_read_gbps = figures.raw_read_gbps;
  run.peak_tops = figures.peak_tops;
  run.figures = {{"decode", figures.context, figures.rows, figures.step_ms * 1e-3, figures.tps,
                  static_cast<double>(figures.bytes_per_token) * 1e-6 / figures.step_ms, figures.roofline_pct,
                  figures.compute_pct, figures.spread_pct, 0}};
  return run;
}

void print_header() {
  std::cout << fmt::format("{:<32} {:>6} {:>10} {:>9} {:>9} {:>18} {:>9} {:>8} {:>9} {:>7}\n", "model", "ctx",
                           "bytes", "floor ms", "ceiling", "step ms (tok/s)", "host ms", "memory", "of floor",
                           "spread");
}

void print_row(const std::string& model, const lab::StepFigures& f) {
  std::cout << fmt::format(
                   "{:<32} {:>6} {:>10} {:>9.2f} {:>9.1f} {:>9.2f} ({:>6.1f}) {:>9.3f} {:>7.1f}% {:>8.1f}% "
                   "{:>6.1f}%{}\n",
                   one_line(model).substr(0, 32), f.context, format_bytes(f.bytes_per_token), f.floor_ms,
                   f.ceiling_tps, f.step_ms, f.tps, f.host_ms, f.roofline_pct, f.floor_pct, f.spread_pct,
                   f.load.busy ? "  busy" : "")
            << std::flush;
}

base::Status run(TableFlags flags) {
  RAFTER_ASSIGN(const std::vector<NamedModel> models, chosen_models(flags));
  std::optional<store::Evaluations> evaluations;
  if (!flags.unrecorded) {
    RAFTER_ASSIGN(evaluations, store::Evaluations::open_default());
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!flags.json) print_header();
  for (const NamedModel& named : models) {
    for (int64_t context : flags.contexts) {
      flags.probe.context = context;
      flags.engine.context = context + 1;
      flags.engine.sequences = flags.probe.rows;
      RAFTER_ASSIGN(const auto engine, open_engine(named.path, flags.engine, true));
      RAFTER_ASSIGN(const lab::StepFigures figures, lab::measure_step(*engine, flags.probe));
      if (evaluations) RAFTER_TRY(evaluations->add(run_of(named, figures, engine->options().threads)));
      flags.json ? rows.push_back(step_json(named.name, figures)) : print_row(named.name, figures);
    }
  }
  if (flags.json) std::cout << rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return {};
}

}  // namespace

Action define_roofline_table(CLI::App& app) {
  auto flags = std::make_shared<TableFlags>();
  constexpr int64_t kLargestContext = 16 << 20;
  app.add_option("models", flags->models,
                 "paths, or parts of registered models' names (default: all of them)");
  app.add_option("--ctx", flags->contexts,
                 "positions held when the step runs, several with commas (default 128)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{0}, kLargestContext));
  app.add_option("--batch", flags->probe.rows, "sequences that step together (default 1)")
      ->check(CLI::Range(1, 512));
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--no-record", flags->unrecorded, "leave the evaluation database alone");
  app.add_flag("--json", flags->json, "print one JSON array");
  return [flags] { return run(*flags); };
}

}  // namespace rafter::cli

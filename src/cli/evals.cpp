// rafter evals: what was measured, and how it changed.
#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "lab/svg_plot.h"
#include "store/evaluations.h"

namespace rafter::cli {
namespace {

struct EvalsFlags {
  store::EvaluationFilter filter;
  std::vector<int64_t> compare;
  std::string export_path, plot_path;
  bool json = false, archive = false;
};

std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
  return text;
}

nlohmann::ordered_json json_of(const store::EvaluationRun& run) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (const store::EvaluationFigure& f : run.figures) {
    figures.push_back({{"metric", f.metric},
                       {"tokens", f.tokens},
                       {"rows", f.rows},
                       {"seconds", f.seconds},
                       {"tps", f.tps},
                       {"gbps", f.gbps},
                       {"roofline_pct", f.roofline_pct},
                       {"compute_pct", f.compute_pct},
                       {"spread_pct", f.spread_pct},
                       {"predicted_tps", f.predicted_tps}});
  }
  return {{"run", run.id},
          {"started_at", run.started_at},
          {"kind", run.kind},
          {"model", run.model},
          {"model_path", run.model_path},
          {"version", run.version},
          {"commit", run.commit},
          {"machine", run.machine},
          {"device", run.device},
          {"threads", run.threads},
          {"format", run.format},
          {"kv", run.kv},
          {"raw_read_gbps", run.raw_read_gbps},
          {"peak_tops", run.peak_tops},
          {"load_ms", run.load_ms},
          {"first_token_ms", run.first_token_ms},
          {"peak_rss_bytes", run.peak_rss_bytes},
          {"predicted_bytes", run.predicted_bytes},
          {"logits_hash", run.logits_hash},
          {"busy", run.busy},
          {"others_pct", run.others_pct},
          {"load_before", run.load_before},
          {"note", run.note},
          {"figures", figures}};
}

std::string figure_name(const store::EvaluationFigure& f) {
  return fmt::format("{} {}{}", f.metric, f.tokens, f.rows > 1 ? fmt::format(" x{}", f.rows) : "");
}

// The roof that the figure is quoted against.
double percent_of(const store::EvaluationFigure& f) {
  return f.metric == "prefill" ? f.compute_pct : std::max(f.roofline_pct, f.compute_pct);
}

void print_list(const std::vector<store::EvaluationRun>& runs) {
  if (runs.empty()) {
    std::cout << "nothing is recorded; `rafter bench MODEL` measures and records\n";
    return;
  }
  for (const store::EvaluationRun& run : runs) {
    std::cout << fmt::format("{:>5}  {}  {:<13} {} ({}), {}{}{}\n", run.id, time_text(run.started_at),
                             run.commit, one_line(run.model), run.format, run.device,
                             run.busy ? fmt::format(", busy {:.0f} %", run.others_pct) : "",
                             run.note.empty() ? "" : ": " + one_line(run.note));
    for (const store::EvaluationFigure& f : run.figures) {
      std::cout << fmt::format("         {:<18} {:>9.1f} tok/s  {:>5.1f} % of the nearer roof{}{}\n",
                               figure_name(f), f.tps, percent_of(f),
                               f.predicted_tps > 0 ? fmt::format(", predicted {:.1f}", f.predicted_tps) : "",
                               f.spread_pct > 5 ? fmt::format(", spread {:.0f} %", f.spread_pct) : "");
    }
  }
}

// Ratios of roof percentages, not of times: machines change their speed from run to run.
base::Status print_comparison(const store::Evaluations& evaluations, const EvalsFlags& flags) {
  RAFTER_ASSIGN(const store::EvaluationRun before, evaluations.get(flags.compare[0]));
  RAFTER_ASSIGN(const store::EvaluationRun after, evaluations.get(flags.compare[1]));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!flags.json) {
    std::cout << fmt::format("{:<18} {:>20} {:>20} {:>9} {:>9}\n", "", fmt::format("run {}", before.id),
                             fmt::format("run {}", after.id), "tok/s", "of roof");
  }
  for (const store::EvaluationFigure& a : before.figures) {
    for (const store::EvaluationFigure& b : after.figures) {
      if (figure_name(a) != figure_name(b) || a.tps <= 0 || percent_of(a) <= 0) continue;
      const double speed = b.tps / a.tps, share = percent_of(b) / percent_of(a);
      if (flags.json) {
        rows.push_back({{"figure", figure_name(a)},
                        {"tps", {a.tps, b.tps}},
                        {"roof_pct", {percent_of(a), percent_of(b)}},
                        {"speed_ratio", speed},
                        {"roof_ratio", share}});
      } else {
        std::cout << fmt::format("{:<18} {:>10.1f} ({:>5.1f} %) {:>10.1f} ({:>5.1f} %) {:>8.2f}x {:>8.2f}x\n",
                                 figure_name(a), a.tps, percent_of(a), b.tps, percent_of(b), speed, share);
      }
    }
  }
  const bool same_logits = before.logits_hash == after.logits_hash;
  if (flags.json) {
    std::cout << nlohmann::ordered_json{{"runs", {before.id, after.id}},
                                        {"same_machine", before.machine == after.machine},
                                        {"same_logits", same_logits},
                                        {"figures", rows}}
                     .dump(2)
              << "\n";
    return {};
  }
  if (before.machine != after.machine)
    std::cout << fmt::format("machines differ: {} / {}\n", before.machine, after.machine);
  std::cout << fmt::format("logits of the first step: {}\n", same_logits ? "the same" : "different");
  return {};
}

// Speed over runs (oldest first) and percent of the roof per model.
std::vector<lab::Plot> plots_of(std::vector<store::EvaluationRun> runs) {
  std::reverse(runs.begin(), runs.end());
  std::map<std::string, lab::Plot> speed;
  lab::Plot roofline{"Percent of the nearer roof, by run", "%", {}, {}, 100};
  std::map<std::string, size_t> roofline_series;
  for (const store::EvaluationRun& run : runs) roofline.labels.push_back(run.commit.substr(0, 7));
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const store::EvaluationFigure& f : runs[r].figures) {
      lab::Plot& plot = speed[runs[r].model];
      plot.title = runs[r].model + ", tokens per second";
      plot.unit = "tok/s";
      plot.labels = roofline.labels;
      const auto add = [&](lab::Plot& to, const std::string& name, double value) {
        auto found = std::find_if(to.series.begin(), to.series.end(),
                                  [&](const lab::PlotSeries& series) { return series.name == name; });
        if (found == to.series.end()) {
          to.series.push_back({name, std::vector<double>(runs.size(), std::nan(""))});
          found = to.series.end() - 1;
        }
        found->values[r] = value;
      };
      add(plot, figure_name(f), f.tps);
      add(roofline, runs[r].model + " " + figure_name(f), percent_of(f));
    }
  }
  std::vector<lab::Plot> plots;
  for (auto& [model, plot] : speed) plots.push_back(std::move(plot));
  plots.push_back(std::move(roofline));
  return plots;
}

base::Status write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return {};
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    return base::Error{base::ErrorCode::io, "cannot be written", path, "check the folder and the disk"};
  return {};
}

// Nothing is ever deleted: the file gets another name.
base::Status archive() {
  namespace fs = std::filesystem;
  RAFTER_ASSIGN(const std::string path, store::Evaluations::default_path());
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    std::cout << "nothing is recorded\n";
    return {};
  }
  {
    RAFTER_TRY(store::Evaluations::open(path));
  }  // closing it folds the write-ahead log into the file
  const std::string to = fmt::format("{}.{}", path, static_cast<int64_t>(std::time(nullptr)));
  fs::rename(path, to, failed);
  if (failed) return base::Error{base::ErrorCode::io, failed.message(), path, ""};
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(path + suffix, failed);
  std::cout << "kept as " << to << "\n";
  return {};
}

base::Status run(const EvalsFlags& flags) {
  if (flags.archive) return archive();
  RAFTER_ASSIGN(const store::Evaluations evaluations, store::Evaluations::open_default());
  if (!flags.compare.empty()) return print_comparison(evaluations, flags);
  RAFTER_ASSIGN(const std::vector<store::EvaluationRun> runs, evaluations.list(flags.filter));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const store::EvaluationRun& run : runs) json.push_back(json_of(run));
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (!flags.export_path.empty()) RAFTER_TRY(write_file(flags.export_path, text));
  if (!flags.plot_path.empty()) RAFTER_TRY(write_file(flags.plot_path, lab::svg_of(plots_of(runs))));
  if (!flags.export_path.empty() || !flags.plot_path.empty()) return {};
  flags.json ? void(std::cout << text) : print_list(runs);
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<EvalsFlags>();
  flags->filter.limit = 20;
  app.add_option("--model", flags->filter.model, "only runs of models whose name holds this");
  app.add_option("--commit", flags->filter.commit, "only runs of this commit");
  app.add_option("--kind", flags->filter.kind, "only runs of this kind: bench, roofline");
  app.add_option("--limit", flags->filter.limit, "at most so many runs, the newest; 0: all (default 20)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--compare", flags->compare, "two runs: what the second gained over the first")->expected(2);
  app.add_option("--export", flags->export_path, "write the runs to a file as JSON; -: standard output");
  app.add_option("--plot", flags->plot_path, "draw speed over runs and percent of the roof into an SVG file");
  app.add_flag("--clear", flags->archive, "begin anew: the database is kept under another name");
  app.add_flag("--json", flags->json, "print one JSON array");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kEvalsVerb{"evals", "what was measured: list, compare, export, plot",
                      "  rafter evals\n"
                      "  rafter evals --model smollm2 --limit 5\n"
                      "  rafter evals --compare 3 7\n"
                      "  rafter evals --plot speed.svg --limit 0\n"
                      "  rafter evals --export runs.json --commit 474117f\n",
                      define};

}  // namespace rafter::cli

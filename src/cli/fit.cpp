// rafter fit: will a model fit, and how fast will it be, before anything is loaded.
#include "cli/fit.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "lab/synth_shape.h"
#include "lab/synth_tensors.h"

namespace rafter::cli {
namespace {

struct FitFlags {
  std::string model, shape, format;
  EngineFlags engine;
  lab::FitOptions fit;
  double memory_gigabytes = 0;
  bool measure = false, json = false;
};

}  // namespace

nlohmann::ordered_json fit_json(const std::string& name, const lab::FitReport& report) {
  return {{"model", name},
          {"ctx", report.context},
          {"model_ctx", report.model_context},
          {"weights_bytes", report.weight_bytes},
          {"kv_bytes", report.cache_bytes},
          {"scratch_bytes", report.scratch_bytes},
          {"total_bytes", report.total_bytes},
          {"memory_bytes", report.memory_bytes},
          {"fits", report.fits},
          {"max_context", report.largest_context},
          {"format", report.format},
          {"bytes_per_token", report.bytes_per_token},
          {"predicted_decode_tps", report.predicted_tps},
          {"predicted_prefill_tps", report.predicted_prefill_tps},
          {"predicted_first_token_seconds", report.predicted_first_token_seconds},
          {"machine",
           {{"name", report.machine.machine},
            {"raw_read_gbps", report.machine.raw_read_gbps},
            {"peak_tops", report.machine.peak_tops},
            {"measured_at", report.machine.measured_at},
            {"busy", report.machine.busy}}},
          {"efficiency",
           {{"decode", report.efficiency.decode},
            {"prefill", report.efficiency.prefill},
            {"measured_runs", report.efficiency.measured_runs}}}};
}

namespace {

void print_text(const std::string& name, const FitFlags& flags, const lab::FitReport& report) {
  std::cout << fmt::format("{}, {} positions: {}\n", one_line(name), report.context,
                           report.fits ? "fits" : "does not fit");
  std::cout << fmt::format("  weights    {:>10}\n  cache      {:>10}\n  scratch    {:>10}\n",
                           format_bytes(report.weight_bytes), format_bytes(report.cache_bytes),
                           format_bytes(report.scratch_bytes));
  std::cout << fmt::format("  together   {:>10} of {} {}\n", format_bytes(report.total_bytes),
                           format_bytes(report.memory_bytes),
                           flags.memory_gigabytes > 0 ? "(--memory)" : "that are available now");
  if (report.largest_context == 0) {
    std::cout << "  no context fits beside the weights\n";
  } else {
    std::cout << fmt::format(
        "  context    {:>10} at most{}\n", report.largest_context,
        report.largest_context == report.model_context ? ": all that the model has" : "");
  }
  std::cout << fmt::format("  predicted  {:.1f} tok/s at {} positions ({} a token), prompts {:.0f} tok/s\n",
                           report.predicted_tps, report.context, format_bytes(report.bytes_per_token),
                           report.predicted_prefill_tps);
  std::cout << fmt::format("             first token of a {}-token prompt after {:.2f} s\n",
                           std::min(flags.fit.prompt_tokens, report.context),
                           report.predicted_first_token_seconds);
  std::cout << fmt::format(
      "  from       {:.1f} GB/s and {:.2f} T/s measured here{}; {:.0f} % and {:.0f} % of them {}\n",
      report.machine.raw_read_gbps, report.machine.peak_tops,
      report.machine.busy ? " while the machine was busy (--measure looks again)" : "",
      100 * report.efficiency.decode, 100 * report.efficiency.prefill,
      report.efficiency.measured_runs > 0
          ? fmt::format("reached in {} run(s) of `rafter bench`", report.efficiency.measured_runs)
          : "are usual (`rafter bench` measures them)");
}

base::Status run(FitFlags flags) {
  if (flags.model.empty() == flags.shape.empty()) {
    return base::Error{base::ErrorCode::invalid_argument,
                       "name a model, or a shape with --shape and --format", "fit", ""};
  }
  NamedModel named{"", flags.shape + " " + flags.format};
  if (flags.shape.empty()) {
    RAFTER_ASSIGN(named, find_model(flags.model));
  }
  auto opened = flags.shape.empty() ? format::Checkpoint::open(named.path)
                                    : lab::shape_without_data(flags.shape, flags.format, 64);
  RAFTER_ASSIGN(format::Checkpoint checkpoint, std::move(opened));
  flags.fit.threads = flags.engine.threads;
  flags.fit.precise = flags.engine.precise;
  flags.fit.kv_quantization = flags.engine.kv_quantization();
  flags.fit.memory_bytes = static_cast<int64_t>(flags.memory_gigabytes * 1e9);
  auto evaluations = store::Evaluations::open_default();
  store::Evaluations* filed = evaluations.ok() ? &*evaluations : nullptr;
  RAFTER_ASSIGN(const store::MachineProfile machine,
                lab::machine_profile_blocking(filed, flags.fit.threads, flags.measure));
  RAFTER_ASSIGN(const lab::FitReport report,
                lab::predict_fit(std::make_shared<const format::Checkpoint>(std::move(checkpoint)), flags.fit,
                                 machine, filed));
  if (flags.json) {
    std::cout << fit_json(named.name, report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    print_text(named.name, flags, report);
  }
  if (report.fits) return {};
  return base::Error{base::ErrorCode::out_of_memory,
                     fmt::format("{} positions take {} and {} may be used", report.context,
                                 format_bytes(report.total_bytes), format_bytes(report.memory_bytes)),
                     named.name,
                     report.largest_context > 0 ? fmt::format("use --ctx {}", report.largest_context)
                                                : "use a smaller model or more bits' worth of quantisation"};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<FitFlags>();
  constexpr int64_t kMostPositions = 16 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name");
  auto* format =
      app.add_option("--format", flags->format, "with --shape: how weights are stored: mlx4, bf16, …");
  auto* shape = app.add_option("--shape", flags->shape, "a shape of `rafter synth` instead of a model");
  shape->needs(format);
  format->needs(shape);
  app.add_option("--ctx", flags->fit.context, "positions of the conversation (default 8192)")
      ->check(CLI::Range(int64_t{1}, kMostPositions));
  app.add_option("--memory", flags->memory_gigabytes, "GB to fit into (default: what is available now)")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option("--prompt", flags->fit.prompt_tokens, "tokens of the prompt to predict (default 512)")
      ->check(CLI::Range(int64_t{1}, kMostPositions));
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--precise", flags->engine.precise, "fp32-accurate products and an fp32 cache");
  add_kv_quant_flag(app, flags->engine);
  app.add_flag("--measure", flags->measure, "measure the machine again (two seconds)");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kFitVerb{"fit", "whether a model fits, and how fast it will be, before it is loaded",
                    "  rafter fit smollm2\n"
                    "  rafter fit smollm2 --ctx 2048 --memory 0.5\n"
                    "  rafter fit --shape llama3-8b --format mlx4 --ctx 32768\n"
                    "  rafter fit smollm2 --json | jq .predicted_decode_tps\n",
                    define};

}  // namespace rafter::cli

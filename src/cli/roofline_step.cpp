// rafter roofline step: one decode step of a model against both roofs.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/engine_flags.h"
#include "cli/find_model.h"
#include "cli/progress_bar.h"
#include "cli/roofline.h"
#include "cli/terminal.h"
#include "lab/step_probe.h"

namespace rafter::cli {
namespace {

struct StepFlags {
  std::string model, trace;
  lab::StepProbeOptions probe;
  EngineFlags engine;
  bool json = false;
};

}  // namespace

nlohmann::ordered_json step_json(const std::string& model, const lab::StepFigures& figures) {
  return {{"model", model},
          {"device", figures.device},
          {"ctx", figures.context},
          {"batch", figures.rows},
          {"kv", figures.kv},
          {"bytes_per_token", figures.bytes_per_token},
          {"weight_bytes", figures.weight_bytes},
          {"kv_bytes", figures.kv_bytes},
          {"operations", figures.operations},
          {"raw_read_gbps", figures.raw_read_gbps},
          {"kernel_gbps", figures.kernel_gbps},
          {"peak_tops", figures.peak_tops},
          {"floor_ms", figures.floor_ms},
          {"ceiling_tps", figures.ceiling_tps},
          {"step_ms", figures.step_ms},
          {"tps", figures.tps},
          {"compute_ms", figures.compute_ms},
          {"host_ms", figures.host_ms},
          {"readback_ms", figures.readback_ms},
          {"roofline_pct", figures.roofline_pct},
          {"floor_pct", figures.floor_pct},
          {"compute_pct", figures.compute_pct},
          {"nearer_roof", figures.nearer_roof},
          {"spread_pct", figures.spread_pct},
          {"load_before", figures.load.load_before},
          {"others_pct", figures.load.others_percent},
          {"busy", figures.load.busy},
          {"checksum", figures.checksum}};
}

namespace {

void print_json(const std::string& model, const lab::StepFigures& figures) {
  using nlohmann::ordered_json;
  ordered_json ops = ordered_json::array();
  for (const lab::OpFigure& op : figures.ops) {
    ops.push_back({{"op", op.op},
                   {"kernel", op.kernel},
                   {"calls", op.calls},
                   {"bytes", op.bytes},
                   {"operations", op.operations},
                   {"us", op.us},
                   {"gbps", op.gbps},
                   {"share", op.share}});
  }
  ordered_json json = step_json(model, figures);
  json["ops"] = ops;
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_text(const std::string& model, const lab::StepFigures& figures) {
  constexpr double kWideSpread = 5;
  std::cout << fmt::format("{} on {}, context {}, {} row{}, {} cache\n", one_line(model), figures.device,
                           figures.context, figures.rows, figures.rows == 1 ? "" : "s", figures.kv);
  std::cout << fmt::format("  bytes    {} = {} weights + {} cache\n", format_bytes(figures.bytes_per_token),
                           format_bytes(figures.weight_bytes), format_bytes(figures.kv_bytes));
  std::cout << fmt::format("  ceiling  {:8.1f} tok/s at {:.1f} GB/s raw read\n", figures.ceiling_tps,
                           figures.raw_read_gbps);
  if (figures.kernel_gbps > 0) {
    std::cout << fmt::format("  floor    {:8.2f} ms at the kernel's own {:.1f} GB/s: {:.0f} %\n",
                             figures.floor_ms, figures.kernel_gbps, figures.floor_pct);
  }
  std::cout << fmt::format(
      "  step     {:8.2f} ms = {:.1f} tok/s: compute {:.2f} ms, host {:.3f} ms; spread {:.1f} %{}\n",
      figures.step_ms, figures.tps, figures.compute_ms, figures.host_ms, figures.spread_pct,
      figures.spread_pct > kWideSpread ? " (wide: repeat on a quiet machine)" : "");
  std::cout << fmt::format(
      "  roofline {:8.1f} % of the raw read; {:.1f} % of the {:.2f} TFLOP/s peak; nearer: {}\n\n",
      figures.roofline_pct, figures.compute_pct, figures.peak_tops, figures.nearer_roof);
  std::cout << fmt::format("  {:<44} {:<16} {:>5} {:>10} {:>9} {:>7} {:>7}\n", "op", "kernel", "calls",
                           "bytes", "us", "GB/s", "share");
  for (const lab::OpFigure& op : figures.ops) {
    std::cout << fmt::format("  {:<44} {:<16} {:>5} {:>10} {:>9.1f} {:>7.1f} {:>6.1f}%\n", op.op, op.kernel,
                             op.calls, op.bytes > 0 ? format_bytes(op.bytes) : "", op.us, op.gbps,
                             100 * op.share);
  }
  if (figures.load.busy) {
    std::cout << fmt::format(
        "busy: other programs took {:.0f} % of the cores meanwhile; load {:.1f} before\n",
        figures.load.others_percent, figures.load.load_before);
  }
}

base::Status write_trace(const std::string& path, const lab::StepFigures& figures) {
  std::ofstream file(path, std::ios::binary);
  file << lab::trace_of(figures);
  file.close();
  if (!file)
    return base::Error{base::ErrorCode::io, "cannot write the trace", path, "check the folder and the disk"};
  return {};
}

base::Status run(StepFlags flags) {
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  flags.engine.context = flags.probe.context + 1;
  flags.engine.sequences = flags.probe.rows;
  RAFTER_ASSIGN(const auto engine, open_engine(named.path, flags.engine, true));
  RAFTER_ASSIGN(const lab::StepFigures figures, lab::measure_step(*engine, flags.probe));
  flags.json ? print_json(named.name, figures) : print_text(named.name, figures);
  return flags.trace.empty() ? base::Status{} : write_trace(flags.trace, figures);
}

}  // namespace

Action define_roofline_step(CLI::App& app) {
  auto flags = std::make_shared<StepFlags>();
  constexpr int64_t kLargestContext = 16 << 20;
  app.add_option("model", flags->model, "a path, or part of a registered model's name")->required();
  app.add_option("--ctx", flags->probe.context, "positions held when the step runs (default 128)")
      ->check(CLI::Range(int64_t{0}, kLargestContext));
  app.add_option("--batch", flags->probe.rows, "sequences that step together (default 1)")
      ->check(CLI::Range(1, 512));
  app.add_option("--threads", flags->engine.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--precise", flags->engine.precise, "fp32-accurate products and an fp32 cache");
  add_kv_quant_flag(app, flags->engine);
  app.add_option("--executor", flags->engine.executor, "cpu or reference, for comparison")
      ->check(CLI::IsMember({"cpu", "reference"}));
  app.add_option("--trace", flags->trace, "also write one step as a Chrome trace (open it in Perfetto)");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return run(*flags); };
}

}  // namespace rafter::cli

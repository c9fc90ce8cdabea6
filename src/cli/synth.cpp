// rafter synth: a checkpoint with a real model's tensors and random weights.
#include "lab/synth.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/exact_integer.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"
#include "lab/synth_shapes.h"
#include "lab/synth_tensors.h"

namespace rafter::cli {
namespace {

struct SynthFlags {
  lab::SynthOptions options;
  bool json = false;
};

void print_summary(const lab::SynthSummary& summary, const lab::SynthOptions& options, bool json) {
  if (!json) {
    std::cout << fmt::format("{}: {} as {}, {} in {} file{}, {} streamed per token\n", summary.path,
                             options.shape, options.format, format_bytes(summary.bytes), summary.files.size(),
                             summary.files.size() == 1 ? "" : "s", format_bytes(summary.streamed_bytes));
    return;
  }
  const nlohmann::ordered_json object = {
      {"path", summary.path},       {"shape", options.shape},
      {"format", options.format},   {"files", summary.files},
      {"bytes", summary.bytes},     {"parameters", summary.parameters},
      {"seed", options.seed},       {"streamed_bytes", summary.streamed_bytes},
      {"seconds", summary.seconds},
  };
  std::cout << object.dump() << "\n";
}

base::Status run(const SynthFlags& flags) {
  const InterruptFlag interrupt;
  std::optional<ProgressBar> bar;
  int64_t drawn = 0;
  auto summary = lab::run_synth_blocking(flags.options, [&](int64_t done, int64_t total) {
    if (!bar) bar.emplace("writing", total);
    bar->advance(done - drawn);
    drawn = done;
    return interrupt.check();
  });
  bar.reset();
  if (!summary.ok()) return summary.error();
  print_summary(*summary, flags.options, flags.json);
  return {};
}

template <typename Entries>
std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& entry : entries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<SynthFlags>();
  lab::SynthOptions& options = flags->options;
  app.add_option("shape", options.shape, "which model to imitate: " + names_of(lab::synth_shapes()))
      ->required();
  app.add_option("--format", options.format, "how weights are stored: " + names_of(lab::synth_formats()))
      ->required();
  app.add_option("--out", options.folder, "folder to write to")->required();
  app.add_option("--seed", options.seed, "seed of the random weights (default 0)")
      ->check(check_exact_integer<uint64_t>);
  app.add_option("--group", options.group, "columns that share a scale in the MLX formats")
      ->check(CLI::IsMember({32, 64, 128}))
      ->capture_default_str();
  app.add_flag("--force", options.force, "replace an older checkpoint in the folder");
  app.add_flag("--json", flags->json,
               "print one JSON object: path, files, bytes, parameters, streamed_bytes");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kSynthVerb{"synth", "write a random-weight checkpoint with a real model's tensors",
                      "  rafter synth llama3-tiny --format bf16 --out /tmp/tiny\n"
                      "  rafter synth llama3-8b --format mlx4 --out ~/models/llama3-8b-mlx4\n"
                      "  rafter synth cpm5-1b --format q8_0 --out ~/models --json\n",
                      define};

}  // namespace rafter::cli

#include "cli/worker_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace rafter::cli {

base::Result<int64_t> parse_bytes(const std::string& text, double unit, const std::string& flag) {
  struct Suffix {
    const char* name;
    double bytes;
  };
  constexpr Suffix kSuffixes[] = {{"B", 1},           {"KB", 1e3},           {"MB", 1e6},
                                  {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
                                  {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  const base::Error error{base::ErrorCode::invalid_argument, fmt::format("\"{}\" is no size", text), flag,
                          "use a number with B, KB, MB, GB, MiB or GiB: 2GB"};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number) || number < 0) return error;
  const std::string suffix = end;
  for (const Suffix& known : kSuffixes) {
    if (suffix == known.name) unit = known.bytes;
  }
  const bool is_known = suffix.empty() || std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                                                      [&](const Suffix& s) { return suffix == s.name; });
  constexpr double kMost = 1e18;
  if (!is_known || number * unit > kMost) return error;
  return static_cast<int64_t>(number * unit);
}

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("model", flags.model, "a path, or part of a registered model's name")->required();
  app.add_option("--batch", flags.batch, "most requests that are computed together")
      ->check(CLI::Range(int64_t{1}, int64_t{256}))
      ->capture_default_str();
  app.add_option("--queue", flags.queue, "most requests that wait behind them; more are refused (429)")
      ->check(CLI::Range(int64_t{0}, int64_t{100000}))
      ->capture_default_str();
  app.add_option("--prompt-cache", flags.prompt_cache,
                 "memory for prefixes that are kept after their requests: 2GB, 512MiB; 0: none")
      ->capture_default_str();
  app.add_option(
      "--prompt-cache-dir", flags.prompt_cache_dir,
      "a folder in which kept prefixes outlive the server (they hold conversations: keep it private)");
  app.add_option("--prompt-cache-disk", flags.prompt_cache_disk, "the most that its files may take together")
      ->capture_default_str();
  app.add_option("--memory-budget", flags.memory_budget,
                 "memory for weights, cache and scratch together, a number alone in GB (default: three "
                 "quarters of the machine's or the cgroup's)");
  app.add_flag("--embeddings", flags.embeddings, "give embeddings instead of text");
  add_engine_flags(app, flags.engine);
}

std::vector<std::string> worker_command(const std::string& program, const WorkerFlags& flags) {
  const EngineFlags& engine = flags.engine;
  std::vector<std::string> words = {program,
                                    "worker",
                                    flags.model,
                                    "--batch",
                                    std::to_string(flags.batch),
                                    "--queue",
                                    std::to_string(flags.queue),
                                    "--prompt-cache",
                                    flags.prompt_cache,
                                    "--prompt-cache-disk",
                                    flags.prompt_cache_disk,
                                    "--executor",
                                    engine.executor,
                                    "--device",
                                    engine.device};
  const auto add = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  if (!flags.prompt_cache_dir.empty()) add("--prompt-cache-dir", flags.prompt_cache_dir);
  if (!flags.memory_budget.empty()) add("--memory-budget", flags.memory_budget);
  if (engine.threads > 0) add("--threads", std::to_string(engine.threads));
  if (engine.context > 0) add("--ctx", std::to_string(engine.context));
  if (engine.prefill_chunk > 0) add("--prefill-chunk", std::to_string(engine.prefill_chunk));
  if (!engine.kv_quant.empty()) add("--kv-quant", engine.kv_quant);
  if (engine.precise) words.push_back("--precise");
  if (flags.embeddings) words.push_back("--embeddings");
  return words;
}

}  // namespace rafter::cli

// Flags of what serves a model: those of the engine, and how much it may do and hold at once. `rafter serve`
// takes them and hands them on to its worker.
#pragma once

#include <string>
#include <vector>

#include "cli/engine_flags.h"

namespace rafter::cli {

struct WorkerFlags {
  std::string model;
  EngineFlags engine;
  int64_t batch = 8;   // most requests whose rows share a step
  int64_t queue = 64;  // most that wait behind them
  std::string prompt_cache = "2GB";
  std::string prompt_cache_dir;  // empty: prefixes end with the process
  std::string prompt_cache_disk = "8GB";
  std::string memory_budget;  // empty: by the machine
  bool embeddings = false;
};

void add_worker_flags(CLI::App& app, WorkerFlags& flags);

// The worker's command line, for serve/worker_service.h.
std::vector<std::string> worker_command(const std::string& program, const WorkerFlags& flags);

// "512MB", "2GiB", "1.5GB", a number alone in `unit` bytes. Error (invalid_argument) names `flag`.
base::Result<int64_t> parse_bytes(const std::string& text, double unit, const std::string& flag);

}  // namespace rafter::cli

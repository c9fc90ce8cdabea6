#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <limits>

#include "cli/find_model.h"
#include "device/gpu.h"
#include "lab/embedding.h"

namespace rafter::cli {
namespace {

engine::EngineOptions options_of(const EngineFlags& flags, bool fuse) {
  engine::EngineOptions options;
  options.executor =
      flags.executor == "reference" ? engine::ExecutorKind::reference : engine::ExecutorKind::cpu;
  options.threads = flags.threads;
  options.precise = flags.precise;
  options.fuse = fuse;
  options.context_limit = flags.context;
  options.max_sequences = std::max(1, flags.sequences);
  options.cache_bytes = flags.cache_bytes;
  if (flags.embeddings) lab::set_embedding_options(options);
  options.row_capacity = static_cast<int>(std::max<int64_t>(options.row_capacity, flags.prefill_chunk));
  return options;
}

// The N of "cuda:N"; 0 for "cuda"; none for anything else.
std::optional<int> gpu_index(std::string_view device) {
  constexpr std::string_view kName = "cuda";
  if (!device.starts_with(kName)) return std::nullopt;
  device.remove_prefix(kName.size());
  if (device.empty()) return 0;
  int index = 0;
  const char* const end = device.data() + device.size();
  const auto [stopped, error] = std::from_chars(device.data() + 1, end, index);
  if (device[0] != ':' || device.size() < 2 || error != std::errc() || stopped != end || index < 0)
    return std::nullopt;
  return index;
}

std::string check_device(const std::string& device) {
  if (device == "cpu" || device == "auto" || gpu_index(device)) return {};
  return "is cpu, cuda, cuda:N or auto, not " + device;
}

base::Result<std::shared_ptr<const format::Checkpoint>> open_checkpoint(const std::string& path) {
  RAFTER_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(path));
  return std::make_shared<const format::Checkpoint>(std::move(checkpoint));
}

}  // namespace

// What --device says. "auto" takes the first GPU if this build and this machine have one that can run the
// model, else the CPU, with a line on why where a GPU was to be expected.
base::Result<std::unique_ptr<engine::Engine>> open_engine(
    std::shared_ptr<const format::Checkpoint> checkpoint, const EngineFlags& flags, bool fuse) {
  engine::EngineOptions options = options_of(flags, fuse);
  const bool automatic = flags.device == "auto";
  if (flags.device == "cpu" || (automatic && (flags.executor == "reference" || !device::built_with_cuda())))
    return engine::Engine::open(std::move(checkpoint), options);
  if (flags.executor == "reference") {
    return base::Error{base::ErrorCode::invalid_argument, "the reference runs on the CPU", "--device",
                       "use --device cpu or another --executor"};
  }
  engine::EngineOptions on_gpu = options;
  on_gpu.executor = engine::ExecutorKind::cuda;
  on_gpu.gpu = gpu_index(flags.device).value_or(0);
  auto engine = engine::Engine::open(checkpoint, on_gpu);
  if (engine.ok() || !automatic || engine.error().code != base::ErrorCode::unsupported) return engine;
  std::cerr << fmt::format("{}: using the CPU\n", engine.error().what);
  return engine::Engine::open(std::move(checkpoint), options);
}

void add_device_flag(CLI::App& app, EngineFlags& flags) {
  flags.device = "auto";
  app.add_option("--device", flags.device,
                 "cpu, cuda, cuda:N (a GPU by number), or auto: a GPU if there is one (default: auto)")
      ->check(check_device);
}

void add_engine_flags(CLI::App& app, EngineFlags& flags) {
  constexpr int64_t kLargestChunk = 65536, kLargestContext = 16 << 20;
  add_device_flag(app, flags);
  app.add_option("--threads", flags.threads, "worker threads (default: every core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--ctx", flags.context, "most positions of a conversation (default: the model's)")
      ->check(CLI::Range(int64_t{1}, kLargestContext));
  app.add_option("--prefill-chunk", flags.prefill_chunk, "most prompt tokens in one step (default: 512)")
      ->check(CLI::Range(int64_t{1}, kLargestChunk));
  app.add_flag("--precise", flags.precise, "fp32-accurate products and an fp32 cache");
  app.add_option("--executor", flags.executor,
                 "cpu, or reference: scalar code in double precision (default: cpu)")
      ->check(CLI::IsMember({"cpu", "reference"}));
}

base::Result<std::unique_ptr<engine::Engine>> open_engine(const std::string& path, const EngineFlags& flags,
                                                          bool fuse) {
  RAFTER_ASSIGN(auto checkpoint, open_checkpoint(path));
  return open_engine(std::move(checkpoint), flags, fuse);
}

base::Result<LoadedModel> load_model(const std::string& query, const EngineFlags& flags) {
  RAFTER_ASSIGN(const NamedModel named, find_model(query));
  RAFTER_ASSIGN(auto checkpoint, open_checkpoint(named.path));
  RAFTER_ASSIGN(auto engine, open_engine(checkpoint, flags, /*fuse=*/true));
  RAFTER_ASSIGN(decode::ModelText text, decode::ModelText::from_checkpoint(*checkpoint));
  auto adapter = std::make_unique<decode::EngineAdapter>(*engine);
  auto lane = std::make_unique<sched::Scheduler>(
      *adapter, decode::GenerationSetting{text.tokenizer(), text.end_tokens()},
      sched::SchedulerOptions{.batch = 1,
                              .prefill_chunk = flags.prefill_chunk,
                              .prompt_cache_bytes = std::numeric_limits<int64_t>::max()});
  return LoadedModel{named.name, std::move(engine), std::move(text), std::move(adapter), std::move(lane)};
}

}  // namespace rafter::cli

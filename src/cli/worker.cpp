// rafter worker: the process that owns the engine behind `rafter serve`. Not for people: it speaks frames on
// a socket that it inherits.
#include <CLI/CLI.hpp>
#include <filesystem>

#include <sys/stat.h>

#include "cli/find_model.h"
#include "cli/verb.h"
#include "cli/worker_flags.h"
#include "decode/answer_constraint.h"
#include "device/gpu.h"
#include "engine/memory_budget.h"
#include "engine/progress.h"
#include "lab/embedding.h"
#include "model/model.h"
#include "serve/worker_loop.h"

namespace rafter::cli {
namespace {

constexpr int64_t kGigabyte = 1000 * 1000 * 1000, kGibibyte = 1 << 30;
// Sequences for prefixes that are kept, beside those of requests.
constexpr int64_t kKeptSequences = 32;

struct Flags {
  WorkerFlags worker;
  int socket = -1;
};

// What a WorkerModel's functions refer to.
struct Owned {
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<decode::EngineAdapter> adapter;
};

// The largest context that fits alone.
int64_t context_that_fits(const engine::Engine& engine) {
  int64_t least = 0, most = engine.context_limit();
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    if (engine.check_fits(middle).ok()) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

bool is_embedding_model(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(path) / "modules.json", error);
}

base::Result<EngineFlags> engine_flags(const WorkerFlags& flags, const format::Checkpoint& checkpoint,
                                       bool embeds) {
  EngineFlags engine = flags.engine;
  const int64_t rows = engine::EngineOptions{}.row_capacity;
  if (engine.prefill_chunk > 0) engine.prefill_chunk = std::max(engine.prefill_chunk, flags.batch);
  engine.sequences = static_cast<int>(flags.batch + (embeds ? 0 : kKeptSequences));
  engine.embeddings = embeds;
  RAFTER_ASSIGN(const int64_t budget, flags.memory_budget.empty()
                                          ? base::Result<int64_t>(0)
                                          : parse_bytes(flags.memory_budget, kGigabyte, "--memory-budget"));
  RAFTER_ASSIGN(const auto model, model::load_model(checkpoint));
  const model::ModelInfo& info = model->info();
  const engine::MemoryNeed need = {
      checkpoint.file_bytes(),
      engine::scratch_bytes(std::max(rows, engine.prefill_chunk), info.width, flags.batch, info.vocabulary)};
  const bool may_be_gpu = engine.device != "cpu" && device::built_with_cuda();  // which has memory of its own
  if (!may_be_gpu || budget > 0) {
    RAFTER_ASSIGN(engine.cache_bytes, engine::cache_budget(need, budget));
  }
  return engine;
}

base::Result<serve::WorkerModel> open_model(const WorkerFlags& flags) {
  RAFTER_ASSIGN(const int64_t prompt_cache, parse_bytes(flags.prompt_cache, kGibibyte, "--prompt-cache"));
  RAFTER_ASSIGN(const int64_t disk, parse_bytes(flags.prompt_cache_disk, kGigabyte, "--prompt-cache-disk"));
  RAFTER_ASSIGN(const NamedModel named, find_model(flags.model));
  RAFTER_ASSIGN(format::Checkpoint opened, format::Checkpoint::open(named.path));
  const auto checkpoint = std::make_shared<const format::Checkpoint>(std::move(opened));
  const bool embeds = flags.embeddings || is_embedding_model(named.path);
  RAFTER_ASSIGN(const EngineFlags engine_options, engine_flags(flags, *checkpoint, embeds));
  const auto owned = std::make_shared<Owned>();
  RAFTER_ASSIGN(owned->engine, open_engine(checkpoint, engine_options, /*fuse=*/true));
  engine::Engine& engine = *owned->engine;

  serve::WorkerModel model;
  model.facts = {
      .context_limit = context_that_fits(engine),
      .vocabulary_size = engine.vocabulary_size(),
      .executor = engine.executor_name(),
      .is_embedder = embeds,
      .weight_bytes = checkpoint->file_bytes(),
      .cache_bytes_limit = engine.cache_bytes_limit(),
      .batch = static_cast<int32_t>(std::min<int64_t>(flags.batch, engine.options().max_sequences))};
  model.cache_bytes = [&engine] { return engine.cache_bytes_in_use(); };
  model.work_done = engine::ops_done;
  model.check_files = [checkpoint] { return checkpoint->check_not_truncated(); };
  model.owner = owned;
  if (embeds) {
    model.embed = [&engine](const std::vector<int32_t>& tokens) -> base::Result<std::vector<float>> {
      RAFTER_TRY(engine.check_fits(static_cast<int64_t>(tokens.size())));
      RAFTER_ASSIGN(auto vectors, lab::embed_blocking(engine, std::span(&tokens, 1)));
      if (!vectors.empty()) return std::move(vectors.front());
      return base::Error{base::ErrorCode::invalid_argument, "there are no tokens to embed", "input", ""};
    };
    return model;
  }
  RAFTER_ASSIGN(const decode::ModelText text, decode::ModelText::from_checkpoint(*checkpoint));
  const auto compiler = std::make_shared<decode::AnswerCompiler>(text.tokenizer(), text.end_tokens());
  model.constraint = [compiler](const decode::AnswerForm& form) { return compiler->constraint(form); };
  owned->adapter = std::make_unique<decode::EngineAdapter>(engine);
  std::shared_ptr<sched::SavedPrefixes> saved;
  if (!flags.prompt_cache_dir.empty()) {
    const auto log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
    RAFTER_ASSIGN(auto folder,
                  sched::SavedPrefixes::open(*owned->adapter, {flags.prompt_cache_dir, disk, log}));
    saved = std::make_shared<sched::SavedPrefixes>(std::move(folder));
  }
  model.lane = std::make_unique<sched::Scheduler>(
      *owned->adapter, decode::GenerationSetting{text.tokenizer(), text.end_tokens()},
      sched::SchedulerOptions{.batch = flags.batch,
                              .queue = flags.queue,
                              .prefill_chunk = flags.engine.prefill_chunk,
                              .prompt_cache_bytes = prompt_cache,
                              .saved = std::move(saved)});
  return model;
}

base::Status run(const Flags& flags) {
  struct stat info{};
  if (::fstat(flags.socket, &info) != 0 || !S_ISSOCK(info.st_mode)) {
    return base::Error{base::ErrorCode::invalid_argument, "is the number of an inherited socket", "--socket",
                       "`rafter serve` starts its worker itself"};
  }
  return serve::run_worker_blocking(flags.socket, [&] { return open_model(flags.worker); });
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--socket", flags->socket, "the descriptor of a socket to the front process")->required();
  add_worker_flags(app, flags->worker);
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kWorkerVerb{"worker", "own the engine of a server (started by serve)",
                       "  rafter worker smollm2 --socket 3\n", define, /*hidden=*/true};

}  // namespace rafter::cli

// Flags of every verb that loads a model, and the loaded model.
#pragma once

#include <memory>
#include <string>

#include "decode/model_text.h"
#include "decode/step_engine.h"
#include "engine/engine.h"
#include "sched/scheduler.h"

namespace CLI {
class App;
}

namespace rafter::cli {

struct EngineFlags {
  std::string executor = "cpu";
  std::string device = "cpu";  // cpu, cuda, cuda:N, auto
  int threads = 0;
  int64_t prefill_chunk = 0;
  int64_t context = 0;
  int sequences = 1;        // held at once
  int64_t cache_bytes = 0;  // of the cache; 0: a share of the memory there is
  bool embeddings = false;  // hidden states instead of logits (lab/embedding.h)
  bool precise = false;
};

void add_engine_flags(CLI::App& app, EngineFlags& flags);

// --device alone, for verbs that take few of the flags. Without it those verbs run on the CPU.
void add_device_flag(CLI::App& app, EngineFlags& flags);

// A model ready to answer one request at a time.
struct LoadedModel {
  std::string name;
  std::unique_ptr<engine::Engine> engine;
  decode::ModelText text;
  std::unique_ptr<decode::EngineAdapter> adapter;
  std::unique_ptr<sched::Scheduler> lane;
};

// The engine alone, of the model that `query` names. `fuse` false: the plan as emitted.
base::Result<std::unique_ptr<engine::Engine>> open_engine(const std::string& path, const EngineFlags& flags,
                                                          bool fuse);

base::Result<std::unique_ptr<engine::Engine>> open_engine(
    std::shared_ptr<const format::Checkpoint> checkpoint, const EngineFlags& flags, bool fuse);

base::Result<LoadedModel> load_model(const std::string& query, const EngineFlags& flags);

}  // namespace rafter::cli

// The worker's side: reads requests from the socket, runs the lane, writes what comes of it.
//
// Three threads: the calling one runs the engine and never waits for the socket; one reads; one writes, and
// reports once a second that the process lives and how far it came. The front process closing the socket, or
// dying, ends the process at once, in the middle of a step too. SIGTERM lets it finish what it has; SIGINT,
// which a terminal sends to the front process as well, is left to that.
#pragma once

#include <functional>
#include <memory>

#include "sched/scheduler.h"
#include "serve/model_service.h"

namespace rafter::serve {

// What the loop serves.
struct WorkerModel {
  std::shared_ptr<void> owner;  // of what the other fields refer to
  ModelFacts facts;
  // Of a model that generates; null otherwise.
  std::unique_ptr<sched::Scheduler> lane;
  std::function<int64_t()> cache_bytes;  // in use; may be empty
  // Both are called on other threads and may be empty. What was computed so far, also within a step, in any
  // unit; whether the model's files are still what was mapped.
  std::function<uint64_t()> work_done;
  std::function<base::Status()> check_files;
  // Of a model that embeds; empty otherwise. Blocks.
  std::function<base::Result<std::vector<float>>(const std::vector<int32_t>& tokens)> embed;
  // What holds an answer to its form; empty: such requests are refused (unsupported).
  std::function<base::Result<std::shared_ptr<decode::TokenConstraint>>(const decode::AnswerForm& form)>
      constraint;
};

using OpenModel = std::function<base::Result<WorkerModel>()>;

// Opens the model (the front process is told of a failure, too) and serves it until SIGTERM. `socket` becomes
// its own. Errors: those of `open`.
base::Status run_worker_blocking(int socket, const OpenModel& open);

// As the lane takes it. Error (unsupported): a form without `constraint`.
base::Result<decode::GenerationRequest> generation_request(CompletionRequest request,
                                                           const WorkerModel& model);

}  // namespace rafter::serve

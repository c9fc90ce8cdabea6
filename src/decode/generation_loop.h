// Any number of requests through one engine, as rows of common steps: a single request is a batch of one.
//
//   GenerationLoop loop(engine, {tokenizer, end_tokens}, {});
//   RAFTER_TRY(loop.submit(request, {.on_token = print, .on_finish = report}));
//   while (loop.step()) {}
//
// A request's tokens do not depend on its company: its rows, its sampler and its text are its own.
#pragma once

#include <memory>
#include <vector>

#include "decode/generation.h"

namespace rafter::decode {

struct LoopOptions {
  // Most prompt rows in one step, all requests together; 0: the engine's row capacity.
  int64_t prefill_chunk = 0;
};

class GenerationLoop {
 public:
  // `engine` must outlive the loop.
  GenerationLoop(StepEngine& engine, GenerationSetting setting, LoopOptions options);

  // Errors before any work: see Generation::start. The listener is called from within step().
  base::Status submit(GenerationRequest request, GenerationListener listener);

  // One engine step: a row of every request that is generating, then prompt rows up to the chunk, oldest
  // request first. Returns whether requests are left. A step the engine refuses for memory ends the request
  // that came last with an error; any other failure ends all that had rows in it.
  bool step();

  size_t active() const { return generations_.size(); }

 private:
  struct Share {  // of one request in the step
    Generation* generation;
    int64_t rows;
    bool wants_logits;
  };
  void plan_step();
  void add_share(Generation& generation, int64_t limit);
  void handle_failure(const base::Error& error);
  void drop_finished();

  StepEngine& engine_;
  GenerationSetting setting_;
  int64_t capacity_, prefill_chunk_;
  std::vector<std::unique_ptr<Generation>> generations_;  // in order of submission
  std::vector<engine::Row> rows_;
  std::vector<Share> shares_;
  SamplerScratch scratch_;
  size_t turn_ = 0;  // who decodes first when there are more requests than rows
};

// Runs one request to its end.
// Errors: those of submit, and what ended the request.
base::Result<GenerationResult> generate_blocking(GenerationLoop& loop, GenerationRequest request,
                                                 std::function<void(const TokenEvent&)> on_token = {});

}  // namespace rafter::decode

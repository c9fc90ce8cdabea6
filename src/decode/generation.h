// One request under way: which rows it needs next, and what it makes of their logits. It knows nothing of its
// neighbours nor of where its sequence comes from; sched/scheduler.h gives it one and puts the rows of all
// into steps.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "decode/request.h"
#include "decode/step_engine.h"
#include "decode/text_stream.h"

namespace rafter::decode {

// What all requests to one model share.
struct GenerationSetting {
  text::Tokenizer tokenizer;
  std::vector<int32_t> end_tokens;
};

class Generation {
 public:
  // Checks everything that can be refused before any work: the parameters, the tokens, the stop strings, and
  // that prompt and answer fit. `setting` must outlive it.
  // Errors: invalid_argument, out_of_memory (the numbers are in the message).
  static base::Result<std::unique_ptr<Generation>> create(const StepEngine& engine,
                                                          const GenerationSetting& setting,
                                                          GenerationRequest request,
                                                          GenerationListener listener);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The sequence that its rows go to, which holds the first `held` of its tokens already.
  void attach(int32_t sequence, int64_t held);
  // It goes on later, on another sequence, with the same tokens to come.
  void detach();
  int32_t sequence() const { return sequence_; }  // −1: none

  const GenerationRequest& request() const { return request_; }
  // Prompt, then everything sampled.
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t prompt_tokens() const { return result_.prompt_tokens; }
  int64_t held() const { return fed_; }               // of the tokens, by the sequence
  int64_t max_tokens() const { return max_tokens_; }  // as many as it may sample
  // The prompt length, beyond what is held, at which it wants to be found again; absent behind the last.
  std::optional<int64_t> next_boundary() const;

  bool finished() const { return finished_; }
  bool failed() const { return finished_ && result_.reason == FinishReason::error; }
  bool is_cancelled() const;
  // Tokens the sequence does not hold yet: the rest of the prompt, or the one sampled last.
  int64_t pending() const { return static_cast<int64_t>(tokens_.size()) - fed_; }
  bool has_sampled() const { return !result_.tokens.empty(); }

  // Adds the next rows, at most `limit`. The row of the last pending token wants logits.
  void add_rows(int64_t limit, std::vector<engine::Row>& rows);
  // The step that held `count` of its rows succeeded.
  void advance(int64_t count);
  // The logits of its wanted row: samples, emits, and finishes if that was the last token.
  void accept(std::span<const float> logits, SamplerScratch& scratch);

  // Ends it from outside. Text that was held back is released first.
  void finish(FinishReason reason, std::optional<base::Error> error = std::nullopt);
  // Tells the listener how many requests are in front, if that or the prompt's progress changed.
  void report_progress(int64_t queued_before);

 private:
  using Clock = std::chrono::steady_clock;

  Generation(const GenerationSetting& setting, GenerationRequest request, GenerationListener listener,
             TextStream stream, int64_t max_tokens);
  void emit(TokenEvent event);
  void complete(FinishReason reason);

  const GenerationSetting& setting_;
  GenerationRequest request_;
  GenerationListener listener_;
  Sampler sampler_;
  TextStream stream_;
  int64_t max_tokens_;
  int32_t sequence_ = -1;
  std::vector<int32_t> tokens_;  // prompt, then everything sampled
  int64_t fed_ = 0;              // how many of them the sequence holds
  bool finished_ = false;
  bool was_attached_ = false;
  std::pair<int64_t, int64_t> reported_ = {-1, -1};  // the last progress
  GenerationResult result_;
  std::optional<Clock::time_point> started_, first_token_;
};

}  // namespace rafter::decode

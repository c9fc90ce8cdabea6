// One request under way: which rows it needs next, and what it makes of their logits. It knows nothing of its
// neighbours; decode/generation_loop.h puts the rows of all into steps.
#pragma once

#include <chrono>
#include <memory>
#include <span>

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
  // that prompt and answer fit. Takes a sequence: the kept one, cut back to what it shares with the prompt,
  // or a new one. Errors: invalid_argument, out_of_memory (the numbers are in the message).
  static base::Result<std::unique_ptr<Generation>> start(StepEngine& engine, const GenerationSetting& setting,
                                                         GenerationRequest request,
                                                         GenerationListener listener);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  bool finished() const { return finished_; }
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

 private:
  using Clock = std::chrono::steady_clock;

  Generation(StepEngine& engine, const GenerationSetting& setting, GenerationRequest request,
             GenerationListener listener, TextStream stream, int64_t max_tokens);
  base::Status take_sequence();
  void emit(TokenEvent event);
  void complete(FinishReason reason);
  void release();

  StepEngine& engine_;
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
  GenerationResult result_;
  std::optional<Clock::time_point> started_, first_token_;
};

}  // namespace rafter::decode

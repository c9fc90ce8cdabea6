// A request for text, what comes out token by token, and what is known at the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/sampler.h"
#include "decode/token_constraint.h"

namespace rafter::decode {

struct GenerationRequest {
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams sampling;
  std::optional<int64_t> max_tokens;  // at least 1; absent: as many as the context still takes
  // What becomes of a max_tokens that does not fit behind the prompt.
  enum class Overflow {
    refuse,  // an error before any work
    finish,  // the answer ends with FinishReason::length where the room does; refused only if the prompt and
             // kAnswerReserve tokens (or max_tokens, if that is less) do not fit
  };
  Overflow overflow = Overflow::refuse;
  static constexpr int64_t kAnswerReserve = 256;
  std::vector<std::string> stop;          // text at which to stop; never shown
  bool ignore_end = false;                // go on after an end token
  std::vector<std::string> kept_markers;  // special tokens that come out as text
  // What the answer is held to; it then ends where that is complete and cannot go on, or at an end token.
  std::shared_ptr<TokenConstraint> constraint;
  // Prompt lengths, ascending, at which later requests may branch off. Where an engine cannot go back to any
  // position, it keeps a snapshot there.
  std::vector<int64_t> boundaries;
  std::string cache_space;                       // prefixes are shared within one space only
  const std::atomic<bool>* cancelled = nullptr;  // looked at between steps; must outlive the request
};

enum class FinishReason {
  stop,       // an end token or a stop string
  length,     // max_tokens reached, or the end of the context or of memory
  cancelled,  // the caller's flag
  error,
};

const char* finish_reason_name(FinishReason reason);  // "stop"

struct TokenEvent {
  std::optional<int32_t> token;  // absent: text that was held back and is released at the end
  std::string text;  // what may be shown now: complete characters, no part of a stop string; may be empty
  std::optional<float> logprob;
  std::vector<TokenLogprob> best;
};

struct GenerationResult {
  FinishReason reason = FinishReason::stop;
  std::optional<base::Error> error;        // with FinishReason::error
  std::optional<std::string> stop_string;  // the one that ended it
  std::string text;                        // all text, stop string excluded
  std::vector<int32_t> tokens;             // all sampled tokens, the end token included
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;   // of the prompt, found computed
  double prefill_seconds = 0;  // from the first step with its rows to its first token
  double decode_seconds = 0;   // from its first token to its last
  std::string
      logits_hash;  // xxh64 of the last sampled row's fp32 logits, 16 hex digits; empty if none was reached
  uint64_t seed = 0;

  // Prompt tokens computed per second; tokens after the first per second. 0 when there were none.
  double prefill_tokens_per_second() const;
  double decode_tokens_per_second() const;
};

struct GenerationListener {
  // Before the first token, whenever it changed: requests in front of this one (0: its rows are being
  // computed) and prompt tokens that are computed or were found so. May be empty.
  std::function<void(int64_t queued_before, int64_t prompt_done)> on_progress = {};
  std::function<void(const TokenEvent&)> on_token = {};         // may be empty
  std::function<void(const GenerationResult&)> on_finish = {};  // called exactly once; may be empty
};

}  // namespace rafter::decode

// From the logits of a request's last position to its next token:
//   constraint, bias, penalties → greedy: the largest, of equals the lowest id
//                   → otherwise logprobs → top_p → min_p → XTC → top_k → a draw from softmax(logprobs /
//                   temperature)
// One Sampler per request; what it draws depends on its seed, its parameters, its step and the logits alone.
#pragma once

#include <optional>

#include "decode/logit_processors.h"
#include "decode/sampling_params.h"
#include "decode/token_constraint.h"
#include "decode/token_filters.h"

namespace rafter::decode {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // over the whole vocabulary, after bias and penalties, before filters and temperature
};

struct Sample {
  int32_t token = 0;
  std::optional<float> logprob;    // when logprobs were asked for
  std::vector<TokenLogprob> best;  // best first, as many as were asked for
};

// Buffers of one draw, [V] each; any number of samplers of one thread share them.
struct SamplerScratch {
  std::vector<float> logits;   // after bias and penalties; then logprobs
  std::vector<float> weights;  // of the draw, unnormalised
};

class Sampler {
 public:
  // `params` must have passed validate().
  explicit Sampler(SamplingParams params);

  uint64_t seed() const { return seed_; }

  // `logits` [V] are not changed. `history`: prompt and generated tokens; it grows from call to call.
  // `constraint` may be null.
  // Error (internal): a logit is NaN or +inf, or all are −inf.
  base::Result<Sample> sample(std::span<const float> logits, std::span<const int32_t> history,
                              SamplerScratch& scratch, TokenConstraint* constraint = nullptr);

 private:
  int32_t draw(std::span<const float> logprobs, SamplerScratch& scratch) const;

  SamplingParams params_;
  LogitProcessors processors_;
  uint64_t seed_;
  uint64_t step_ = 0;  // tokens this request has sampled
};

}  // namespace rafter::decode

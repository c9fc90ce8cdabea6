// The filters between logprobs and the draw: top_p → min_p → XTC → top_k. Each removes tokens from the set
// that the one before left; nothing is renormalised in between and temperature comes after all of them, so
// top_p and min_p see the model's own probabilities.
//
// `logprobs` [V] are normalised over the whole vocabulary; −inf entries are never kept by an active filter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/sampling_params.h"

namespace rafter::decode {

// The tokens that are still in: everything, or the listed ids (in no particular order).
struct TokenSet {
  bool everything = true;
  std::vector<int32_t> ids;
};

// Keeps a token iff the mass of the tokens ranked above it is < top_p. Rank: by probability, of equals the
// higher id first (the sources cut equals from the low end of a stable ascending sort). Active for 0 < top_p
// < 1.
void keep_top_p(std::span<const float> logprobs, float top_p, TokenSet& set);

// Removes logprobs below the set's largest + ln(min_p). Active unless min_p = 0.
void keep_min_p(std::span<const float> logprobs, float min_p, TokenSet& set);

// Removes every token whose probability within the set exceeds `threshold`, except the least likely such
// token (and what equals it) and the exempt ids. The caller tosses the coin.
void exclude_top_choices(std::span<const float> logprobs, float threshold, std::span<const int32_t> exempt,
                         TokenSet& set);

// Keeps the k largest, of equals the lower id first. Active for k > 0; k ≥ the set's size keeps all.
void keep_top_k(std::span<const float> logprobs, int32_t k, TokenSet& set);

// All four in order, as `params` asks for them. `xtc_coin` in [0, 1): XTC applies iff it is ≤
// xtc_probability.
TokenSet filter_tokens(std::span<const float> logprobs, const SamplingParams& params, double xtc_coin);

// The k largest of all tokens, best first, of equals the lower id first.
std::vector<int32_t> best_tokens(std::span<const float> logprobs, int32_t k);

}  // namespace rafter::decode

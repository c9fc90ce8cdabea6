// What a request may ask of the sampler. Every field's neutral value switches its stage off, so a
// default-constructed SamplingParams draws from the plain softmax at its temperature.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rafter::decode {

// A penalty and the window of history it looks at: the last `window` tokens of prompt + generated, 0 for all
// of them.
struct Penalty {
  float strength = 0;  // 0: off
  int32_t window = 20;
};

struct SamplingParams {
  float temperature = 0.7f;         // 0: greedy
  float top_p = 0;                  // active for 0 < top_p < 1
  float min_p = 0;                  // 0 … 1; 0: off
  int32_t top_k = 0;                // 0: off
  float xtc_probability = 0;        // 0 … 1; 0: off
  float xtc_threshold = 0;          // 0 … 0.5
  std::vector<int32_t> xtc_exempt;  // ids XTC never removes: end tokens and newlines

  Penalty repetition;  // strength ≥ 0; 0 and 1: off
  Penalty presence;    // any finite strength; negative encourages
  Penalty frequency;

  std::vector<std::pair<int32_t, float>> logit_bias;  // (token id, what is added to its logit)
  std::optional<uint64_t> seed;                       // absent: a fresh one, reported
  int32_t top_logprobs = -1;  // -1: no logprobs; n ≥ 0: the chosen token's and the n best

  static constexpr int32_t kMaxTopLogprobs = 20;
};

// Error (invalid_argument, naming the field and its range) unless every field is in range and every biased id
// is below `vocabulary`.
base::Status validate(const SamplingParams& params, int64_t vocabulary);

}  // namespace rafter::decode

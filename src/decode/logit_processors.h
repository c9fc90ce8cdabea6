// What is added to the logits before anything is drawn: logit bias, then repetition, presence and frequency
// penalties, each reading what the one before left. They apply to greedy decoding too.
//
// For each distinct token t that occurs c times in a penalty's window:
//   repetition p:  logit < 0 → logit · p, else logit / p   (once, whatever c)
//   presence a:    logit − a                               (once)
//   frequency a:   logit − a · c
#pragma once

#include <span>

#include "decode/sampling_params.h"
#include "decode/token_window.h"

namespace rafter::decode {

class LogitProcessors {
 public:
  explicit LogitProcessors(const SamplingParams& params);

  // `logits` [V] are changed in place. `history`: prompt and generated tokens, growing from call to call; ids
  // outside the vocabulary are passed over.
  void apply(std::span<float> logits, std::span<const int32_t> history);

 private:
  std::vector<std::pair<int32_t, float>> bias_;
  float repetition_, presence_, frequency_;
  TokenWindow repetition_window_, presence_window_, frequency_window_;
};

}  // namespace rafter::decode

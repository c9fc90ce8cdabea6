#include "decode/logit_processors.h"

namespace rafter::decode {
namespace {

// Calls change(logit, count) for every distinct token of the window.
template <typename Change>
void for_each_token(std::span<float> logits, TokenWindow& window, std::span<const int32_t> history,
                    const Change& change) {
  window.update(history);
  for (const auto& [token, count] : window.counts()) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    change(logits[static_cast<size_t>(token)], static_cast<float>(count));
  }
}

}  // namespace

LogitProcessors::LogitProcessors(const SamplingParams& params)
    : bias_(params.logit_bias),
      repetition_(params.repetition.strength == 1 ? 0 : params.repetition.strength),
      presence_(params.presence.strength),
      frequency_(params.frequency.strength),
      repetition_window_(params.repetition.window),
      presence_window_(params.presence.window),
      frequency_window_(params.frequency.window) {}

void LogitProcessors::apply(std::span<float> logits, std::span<const int32_t> history) {
  for (const auto& [token, bias] : bias_) logits[static_cast<size_t>(token)] += bias;
  if (repetition_ != 0) {
    for_each_token(logits, repetition_window_, history, [this](float& logit, float) {
      logit = logit < 0 ? logit * repetition_ : logit / repetition_;
    });
  }
  if (presence_ != 0) {
    for_each_token(logits, presence_window_, history, [this](float& logit, float) { logit -= presence_; });
  }
  if (frequency_ != 0) {
    for_each_token(logits, frequency_window_, history,
                   [this](float& logit, float count) { logit -= frequency_ * count; });
  }
}

}  // namespace rafter::decode

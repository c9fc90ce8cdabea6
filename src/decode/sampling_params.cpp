#include "decode/sampling_params.h"

#include <cmath>

namespace rafter::decode {
namespace {

base::Error out_of_range(const char* field, const std::string& rule, double value) {
  return base::Error{base::ErrorCode::invalid_argument, fmt::format("must be {}, not {}", rule, value), field,
                     ""};
}

// NaN fails every comparison, so it is refused here too.
base::Status check_between(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return out_of_range(field, fmt::format("between {} and {}", low, high), value);
}

base::Status check_at_least_zero(const char* field, float value) {
  if (value >= 0 && std::isfinite(value)) return {};
  return out_of_range(field, "at least 0 and finite", value);
}

base::Status check_finite(const char* field, float value) {
  if (std::isfinite(value)) return {};
  return out_of_range(field, "finite", value);
}

base::Status check_window(const char* field, const Penalty& penalty) {
  if (penalty.window >= 0) return {};
  return out_of_range(field, "at least 0", penalty.window);
}

}  // namespace

base::Status validate(const SamplingParams& params, int64_t vocabulary) {
  RAFTER_TRY(check_at_least_zero("temperature", params.temperature));
  RAFTER_TRY(check_between("top_p", params.top_p, 0, 1));
  RAFTER_TRY(check_between("min_p", params.min_p, 0, 1));
  if (params.top_k < 0) return out_of_range("top_k", "at least 0", params.top_k);
  RAFTER_TRY(check_between("xtc_probability", params.xtc_probability, 0, 1));
  RAFTER_TRY(check_between("xtc_threshold", params.xtc_threshold, 0, 0.5f));
  RAFTER_TRY(check_at_least_zero("repetition_penalty", params.repetition.strength));
  RAFTER_TRY(check_finite("presence_penalty", params.presence.strength));
  RAFTER_TRY(check_finite("frequency_penalty", params.frequency.strength));
  RAFTER_TRY(check_window("repetition_context_size", params.repetition));
  RAFTER_TRY(check_window("presence_context_size", params.presence));
  RAFTER_TRY(check_window("frequency_context_size", params.frequency));
  if (params.top_logprobs < -1 || params.top_logprobs > SamplingParams::kMaxTopLogprobs) {
    return out_of_range("top_logprobs", fmt::format("between 0 and {}", SamplingParams::kMaxTopLogprobs),
                        params.top_logprobs);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocabulary) {
      return base::Error{base::ErrorCode::invalid_argument,
                         fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary),
                         "logit_bias", ""};
    }
    RAFTER_TRY(check_finite("logit_bias", bias));
  }
  return {};
}

}  // namespace rafter::decode

// Flags of sampling, stop strings and length, shared by generate and chat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decode/model_text.h"
#include "decode/request.h"

namespace CLI {
class App;
}

namespace rafter::cli {

struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k;
  std::vector<std::string> logit_bias;  // "id=value"
  std::optional<uint64_t> seed;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
};

void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

// A request without a prompt: the flags over the model's own defaults.
// Error (invalid_argument): a --logit-bias that is not id=value.
base::Result<decode::GenerationRequest> request_of(const SamplingFlags& flags, const decode::ModelText& text);

}  // namespace rafter::cli

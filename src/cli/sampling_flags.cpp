#include "cli/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "cli/exact_integer.h"

namespace rafter::cli {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

base::Result<std::pair<int32_t, float>> parse_bias(std::string_view text) {
  const size_t equals = text.find('=');
  std::pair<int32_t, float> bias;
  const bool good = equals != std::string_view::npos && parse_number(text.substr(0, equals), bias.first) &&
                    parse_number(text.substr(equals + 1), bias.second);
  if (good) return bias;
  return base::Error{base::ErrorCode::invalid_argument,
                     fmt::format("\"{}\" is not of the form id=value", text), "--logit-bias",
                     "for example --logit-bias 198=-5"};
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--max-tokens", flags.max_tokens,
                 "most tokens of the answer (default: what the context holds)")
      ->check(check_exact_integer<int64_t>);
  app.add_option("--temperature", flags.temperature,
                 "0 takes the likeliest token (default: the model's, else 0.7)");
  app.add_option("--top-p", flags.top_p, "keep the likeliest tokens up to this mass");
  app.add_option("--top-k", flags.top_k, "keep the k likeliest tokens");
  app.add_option("--min-p", flags.min_p, "drop tokens less likely than this part of the likeliest");
  app.add_option("--repetition-penalty", flags.repetition_penalty,
                 "divides logits of the last 20 tokens; 1 is off");
  app.add_option("--presence-penalty", flags.presence_penalty, "taken from logits of the last 20 tokens");
  app.add_option("--frequency-penalty", flags.frequency_penalty, "the same, times how often each occurred");
  app.add_option("--logit-bias", flags.logit_bias, "id=value, added to a token's logit; may be repeated");
  app.add_option("--seed", flags.seed, "makes sampling repeatable (default: a new one each time, reported)")
      ->check(check_exact_integer<uint64_t>);
  app.add_option("--stop", flags.stop, "text at which to stop; may be repeated");
}

base::Result<decode::GenerationRequest> request_of(const SamplingFlags& flags,
                                                   const decode::ModelText& text) {
  decode::GenerationRequest request;
  decode::SamplingParams& sampling = request.sampling = text.default_sampling();
  sampling.temperature = flags.temperature.value_or(sampling.temperature);
  sampling.top_p = flags.top_p.value_or(sampling.top_p);
  sampling.top_k = flags.top_k.value_or(sampling.top_k);
  sampling.min_p = flags.min_p.value_or(sampling.min_p);
  sampling.repetition.strength = flags.repetition_penalty.value_or(sampling.repetition.strength);
  sampling.presence.strength = flags.presence_penalty.value_or(0);
  sampling.frequency.strength = flags.frequency_penalty.value_or(0);
  sampling.seed = flags.seed;
  for (const std::string& entry : flags.logit_bias) {
    RAFTER_ASSIGN(const auto bias, parse_bias(entry));
    sampling.logit_bias.push_back(bias);
  }
  request.max_tokens = flags.max_tokens;
  request.stop = flags.stop;
  return request;
}

}  // namespace rafter::cli

#include "serve/proto/reply.h"

#include "base/utf8.h"

namespace rafter::serve {
namespace {

Json choice_json(const TokenChoice& choice) {
  Json bytes = Json::array();
  for (const char byte : choice.bytes) bytes.push_back(static_cast<uint8_t>(byte));
  return {{"id", choice.id},
          {"token", base::replace_malformed_utf8(choice.bytes)},
          {"bytes", std::move(bytes)},
          {"logprob", choice.logprob}};
}

}  // namespace

std::string sse_data(const Json& json) { return "data: " + to_text(json) + "\n\n"; }

std::string sse_event(const char* event, const Json& json) {
  return std::string("event: ") + event + "\n" + sse_data(json);
}

const char* ending_name(Ending ending) {
  switch (ending) {
    case Ending::stop:
      return "stop";
    case Ending::length:
      return "length";
    case Ending::tool_calls:
      return "tool_calls";
  }
  return "stop";
}

Json openai_usage(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

Json timings_json(const Usage& usage, const Timings& timings) {
  constexpr double kMilliseconds = 1000;
  return {{"cache_n", usage.cached},
          {"prompt_n", usage.prompt - usage.cached},
          {"prompt_ms", timings.prompt_seconds * kMilliseconds},
          {"prompt_per_second", timings.prompt_per_second},
          {"predicted_n", usage.completion},
          {"predicted_ms", timings.predicted_seconds * kMilliseconds},
          {"predicted_per_second", timings.predicted_per_second}};
}

Json logprobs_json(std::span<const TokenRecord> tokens) {
  Json content = Json::array();
  for (const TokenRecord& token : tokens) {
    Json entry = choice_json(token.chosen);
    entry["top_logprobs"] = Json::array();
    for (const TokenChoice& choice : token.best) entry["top_logprobs"].push_back(choice_json(choice));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

}  // namespace rafter::serve

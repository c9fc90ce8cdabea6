#include "serve/worker_messages.h"

#include <limits>

namespace rafter::serve {

using nlohmann::json;

namespace {

// nlohmann's accessors throw on a missing key or another type: here, and only here, that becomes an error.
template <typename T, typename Read>
base::Result<T> reading(const char* what, const Read& read) {
  try {
    T value{};
    read(value);
    return value;
  } catch (const json::exception& exception) {
    return base::Error{base::ErrorCode::invalid_data, exception.what(), what, ""};
  }
}

template <typename T>
json optional_json(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <typename T>
void read_optional(const json& object, const char* key, std::optional<T>& value) {
  const json& field = object.at(key);
  if (!field.is_null()) value = field.get<T>();
}

// JSON has no infinity; a logprob of −∞ is null.
float read_logprob(const json& value) {
  return value.is_null() ? -std::numeric_limits<float>::infinity() : value.get<float>();
}

json json_of(const decode::Penalty& penalty) { return json::array({penalty.strength, penalty.window}); }
void read(const json& value, decode::Penalty& penalty) {
  penalty = {value.at(0).get<float>(), value.at(1).get<int32_t>()};
}

json json_of(const decode::SamplingParams& p) {
  return {{"temperature", p.temperature},
          {"top_p", p.top_p},
          {"min_p", p.min_p},
          {"top_k", p.top_k},
          {"xtc_probability", p.xtc_probability},
          {"xtc_threshold", p.xtc_threshold},
          {"xtc_exempt", p.xtc_exempt},
          {"repetition", json_of(p.repetition)},
          {"presence", json_of(p.presence)},
          {"frequency", json_of(p.frequency)},
          {"logit_bias", p.logit_bias},
          {"seed", optional_json(p.seed)},
          {"top_logprobs", p.top_logprobs}};
}

void read(const json& object, decode::SamplingParams& p) {
  object.at("temperature").get_to(p.temperature);
  object.at("top_p").get_to(p.top_p);
  object.at("min_p").get_to(p.min_p);
  object.at("top_k").get_to(p.top_k);
  object.at("xtc_probability").get_to(p.xtc_probability);
  object.at("xtc_threshold").get_to(p.xtc_threshold);
  object.at("xtc_exempt").get_to(p.xtc_exempt);
  read(object.at("repetition"), p.repetition);
  read(object.at("presence"), p.presence);
  read(object.at("frequency"), p.frequency);
  object.at("logit_bias").get_to(p.logit_bias);
  read_optional(object, "seed", p.seed);
  object.at("top_logprobs").get_to(p.top_logprobs);
}

json json_of(const decode::AnswerForm& form) {
  json object = {{"family", form.family},
                 {"reasoning", form.reasoning},
                 {"json_schema", optional_json(form.json_schema)},
                 {"calls", json()},
                 {"begins_in_reasoning", form.begins_in_reasoning},
                 {"may_reason", form.may_reason},
                 {"reasoning_budget", optional_json(form.reasoning_budget)},
                 {"reasoning_end", form.reasoning_end}};
  if (form.calls) {
    object["calls"] = {{"tools", form.calls->tools_json},
                       {"are_required", form.calls->are_required},
                       {"several", form.calls->several},
                       {"older", form.calls->older}};
  }
  return object;
}

void read(const json& object, decode::AnswerForm& form) {
  object.at("family").get_to(form.family);
  object.at("reasoning").get_to(form.reasoning);
  read_optional(object, "json_schema", form.json_schema);
  if (const json& calls = object.at("calls"); !calls.is_null()) {
    form.calls.emplace();
    calls.at("tools").get_to(form.calls->tools_json);
    calls.at("are_required").get_to(form.calls->are_required);
    calls.at("several").get_to(form.calls->several);
    calls.at("older").get_to(form.calls->older);
  }
  object.at("begins_in_reasoning").get_to(form.begins_in_reasoning);
  object.at("may_reason").get_to(form.may_reason);
  read_optional(object, "reasoning_budget", form.reasoning_budget);
  object.at("reasoning_end").get_to(form.reasoning_end);
}

}  // namespace

uint64_t whole_number(const json& object, const char* key, uint64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : fallback;
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json json_of_request(const CompletionRequest& r) {
  return {{"prompt", r.prompt},
          {"boundaries", r.boundaries},
          {"sampling", json_of(r.sampling)},
          {"max_tokens", optional_json(r.max_tokens)},
          {"stop", r.stop},
          {"ignore_end", r.ignore_end},
          {"kept_markers", r.kept_markers},
          {"form", r.form ? json_of(*r.form) : json()},
          {"cache_space", r.cache_space}};
}

base::Result<CompletionRequest> read_request(const json& object) {
  return reading<CompletionRequest>("request", [&](CompletionRequest& r) {
    object.at("prompt").get_to(r.prompt);
    object.at("boundaries").get_to(r.boundaries);
    read(object.at("sampling"), r.sampling);
    read_optional(object, "max_tokens", r.max_tokens);
    object.at("stop").get_to(r.stop);
    object.at("ignore_end").get_to(r.ignore_end);
    object.at("kept_markers").get_to(r.kept_markers);
    if (const json& form = object.at("form"); !form.is_null()) read(form, r.form.emplace());
    object.at("cache_space").get_to(r.cache_space);
  });
}

json json_of_error(const base::Error& error) {
  return {{"code", base::error_code_name(error.code)},
          {"what", error.what},
          {"where", error.where},
          {"hint", error.hint}};
}

base::Error read_error(const json& object) {
  constexpr base::ErrorCode kLast = base::ErrorCode::internal;
  base::Error error{kLast, text_of(object, "what"), text_of(object, "where"), text_of(object, "hint")};
  const std::string name = text_of(object, "code");
  for (int code = 0; code <= static_cast<int>(kLast); ++code) {
    if (name == base::error_code_name(static_cast<base::ErrorCode>(code)))
      error.code = static_cast<base::ErrorCode>(code);
  }
  return error;
}

json json_of_facts(const ModelFacts& f) {
  return {{"context_limit", f.context_limit},
          {"vocabulary_size", f.vocabulary_size},
          {"executor", f.executor},
          {"is_embedder", f.is_embedder},
          {"weight_bytes", f.weight_bytes},
          {"cache_bytes_limit", f.cache_bytes_limit},
          {"batch", f.batch}};
}

base::Result<ModelFacts> read_facts(const json& object) {
  return reading<ModelFacts>("facts", [&](ModelFacts& f) {
    object.at("context_limit").get_to(f.context_limit);
    object.at("vocabulary_size").get_to(f.vocabulary_size);
    object.at("executor").get_to(f.executor);
    object.at("is_embedder").get_to(f.is_embedder);
    object.at("weight_bytes").get_to(f.weight_bytes);
    object.at("cache_bytes_limit").get_to(f.cache_bytes_limit);
    object.at("batch").get_to(f.batch);
  });
}

json json_of_stats(const ServiceStats& s) {
  return {{"active", s.active},
          {"queued", s.queued},
          {"cache_bytes", s.cache_bytes},
          {"kept_bytes", s.kept_bytes},
          {"cached_prefix_tokens", s.cached_prefix_tokens},
          {"prompt_tokens", s.prompt_tokens},
          {"cached_tokens", s.cached_tokens},
          {"generated_tokens", s.generated_tokens},
          {"prefill_seconds", s.prefill_seconds},
          {"decode_seconds", s.decode_seconds},
          {"resident_bytes", s.resident_bytes}};
}

base::Result<ServiceStats> read_stats(const json& object) {
  return reading<ServiceStats>("stats", [&](ServiceStats& s) {
    object.at("active").get_to(s.active);
    object.at("queued").get_to(s.queued);
    object.at("cache_bytes").get_to(s.cache_bytes);
    object.at("kept_bytes").get_to(s.kept_bytes);
    object.at("cached_prefix_tokens").get_to(s.cached_prefix_tokens);
    object.at("prompt_tokens").get_to(s.prompt_tokens);
    object.at("cached_tokens").get_to(s.cached_tokens);
    object.at("generated_tokens").get_to(s.generated_tokens);
    object.at("prefill_seconds").get_to(s.prefill_seconds);
    object.at("decode_seconds").get_to(s.decode_seconds);
    object.at("resident_bytes").get_to(s.resident_bytes);
  });
}

json json_of_token(uint64_t id, const decode::TokenEvent& event) {
  json object = {{"type", "token"}, {"id", id}, {"text", event.text}};
  if (event.token) object["token"] = *event.token;
  if (event.logprob) object["logprob"] = *event.logprob;
  if (event.best.empty()) return object;
  json& best = object["best"] = json::array();
  for (const decode::TokenLogprob& choice : event.best)
    best.push_back(json::array({choice.token, choice.logprob}));
  return object;
}

base::Result<decode::TokenEvent> read_token(const json& object) {
  return reading<decode::TokenEvent>("token", [&](decode::TokenEvent& event) {
    object.at("text").get_to(event.text);
    if (object.contains("token")) event.token = object.at("token").get<int32_t>();
    if (object.contains("logprob")) event.logprob = read_logprob(object.at("logprob"));
    if (!object.contains("best")) return;
    for (const json& choice : object.at("best"))
      event.best.push_back({choice.at(0).get<int32_t>(), read_logprob(choice.at(1))});
  });
}

json json_of_result(uint64_t id, const decode::GenerationResult& r) {
  return {{"type", "finish"},
          {"id", id},
          {"reason", decode::finish_reason_name(r.reason)},
          {"error", r.error ? json_of_error(*r.error) : json()},
          {"stop_string", optional_json(r.stop_string)},
          {"prompt_tokens", r.prompt_tokens},
          {"cached_tokens", r.cached_tokens},
          {"prefill_seconds", r.prefill_seconds},
          {"decode_seconds", r.decode_seconds},
          {"logits_hash", r.logits_hash},
          {"seed", r.seed}};
}

base::Result<decode::GenerationResult> read_result(const json& object) {
  return reading<decode::GenerationResult>("finish", [&](decode::GenerationResult& r) {
    const auto name = object.at("reason").get<std::string>();
    r.reason = decode::FinishReason::error;
    for (const auto reason :
         {decode::FinishReason::stop, decode::FinishReason::length, decode::FinishReason::cancelled}) {
      if (name == decode::finish_reason_name(reason)) r.reason = reason;
    }
    if (const json& error = object.at("error"); !error.is_null()) r.error = read_error(error);
    read_optional(object, "stop_string", r.stop_string);
    object.at("prompt_tokens").get_to(r.prompt_tokens);
    object.at("cached_tokens").get_to(r.cached_tokens);
    object.at("prefill_seconds").get_to(r.prefill_seconds);
    object.at("decode_seconds").get_to(r.decode_seconds);
    object.at("logits_hash").get_to(r.logits_hash);
    object.at("seed").get_to(r.seed);
  });
}

base::Result<CompletionProgress> read_progress(const json& object) {
  return reading<CompletionProgress>("progress", [&](CompletionProgress& p) {
    object.at("queued_before").get_to(p.queued_before);
    object.at("prompt_done").get_to(p.prompt_done);
    object.at("prompt_total").get_to(p.prompt_total);
  });
}

}  // namespace rafter::serve

#include "serve/proto/openai_completions.h"

#include "base/utf8.h"

namespace rafter::serve {
namespace {

constexpr int64_t kDefaultTokens = 512, kMostTokens = 1 << 30;

// A string, an array of one string, an array of token ids, or an array of one such array.
base::Result<RawPrompt> read_prompt(const Json* prompt) {
  const base::Error malformed = field_error("prompt", "must be a non-empty string or an array of token ids");
  if (prompt != nullptr && prompt->is_array() && prompt->size() == 1 &&
      (prompt->front().is_string() || prompt->front().is_array()))
    prompt = &prompt->front();
  if (prompt == nullptr || prompt->empty()) return malformed;
  RawPrompt result;
  if (prompt->is_string()) {
    if (*prompt == "") return malformed;
    result.text = prompt->get<std::string>();
    return result;
  }
  if (!prompt->is_array()) return malformed;
  std::vector<int32_t> tokens;
  for (const Json& token : *prompt) {
    const auto id = integer_of(token);
    if (token.is_string() || token.is_array()) return field_error("prompt", "must be one prompt per request");
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) return malformed;
    tokens.push_back(static_cast<int32_t>(*id));
  }
  result.text = std::move(tokens);
  return result;
}

// The older shape of logprobs: parallel arrays.
Json older_logprobs(std::span<const TokenRecord> tokens) {
  Json json = {{"tokens", Json::array()}, {"token_logprobs", Json::array()}, {"top_logprobs", Json::array()}};
  for (const TokenRecord& token : tokens) {
    json["tokens"].push_back(base::replace_malformed_utf8(token.chosen.bytes));
    json["token_logprobs"].push_back(token.chosen.logprob);
    Json best = Json::object();
    for (const TokenChoice& choice : token.best)
      best[base::replace_malformed_utf8(choice.bytes)] = choice.logprob;
    json["top_logprobs"].push_back(std::move(best));
  }
  return json;
}

class CompletionReply : public Reply {
 public:
  explicit CompletionReply(const CompletionOptions& options) : options_(options) {}

  std::string begin() override {
    return options_.echo.empty() ? ": begun\n\n" : chunk(options_.echo, nullptr, {});
  }

  std::string piece(const Piece& piece) override {
    std::string text;
    for (const text::OutputEvent& event : piece.events) text += event.text;
    return text.empty() && piece.tokens.empty() ? "" : chunk(text, nullptr, piece.tokens);
  }

  std::string end(const Answer& answer) override {
    Json last = envelope();
    last["choices"] = Json::array({choice("", ending_name(answer.ending), {})});
    last["usage"] = openai_usage(answer.usage);
    last["timings"] = timings_json(answer.usage, answer.timings);
    std::string out = sse_data(last);
    if (options_.include_usage) {
      Json usage = envelope();
      usage["choices"] = Json::array();
      usage["usage"] = openai_usage(answer.usage);
      out += sse_data(usage);
    }
    return out + "data: [DONE]\n\n";
  }

  std::string failure(const ApiError& error) override { return sse_data(openai_error(error)); }

  Json whole(const Answer& answer) override {
    Json json = envelope();
    json["choices"] =
        Json::array({choice(options_.echo + answer.content, ending_name(answer.ending), answer.tokens)});
    json["usage"] = openai_usage(answer.usage);
    json["timings"] = timings_json(answer.usage, answer.timings);
    json["seed"] = answer.seed;
    return json;
  }

 private:
  Json envelope() const {
    return {{"id", "cmpl-" + facts().id},
            {"object", "text_completion"},
            {"created", facts().created},
            {"model", facts().model}};
  }

  Json choice(const std::string& text, const char* reason, std::span<const TokenRecord> tokens) const {
    return {{"index", 0},
            {"text", text},
            {"logprobs", options_.logprobs && !tokens.empty() ? older_logprobs(tokens) : Json(nullptr)},
            {"finish_reason", reason != nullptr ? Json(reason) : Json(nullptr)}};
  }

  std::string chunk(const std::string& text, const char* reason, std::span<const TokenRecord> tokens) const {
    Json json = envelope();
    json["choices"] = Json::array({choice(text, reason, tokens)});
    return sse_data(json);
  }

  CompletionOptions options_;
};

// `logprobs` is a number here: how many candidates; true asks for the chosen token's alone.
base::Status read_logprobs(const Fields& fields, SamplingFields& out) {
  const Json* value = fields.find("logprobs");
  if (value == nullptr) return {};
  if (value->is_boolean()) {
    if (value->get<bool>()) out.top_logprobs = 0;
    return {};
  }
  std::optional<int64_t> count;
  RAFTER_TRY(fields.read("logprobs", count, 0, 20));
  out.top_logprobs = static_cast<int32_t>(*count);
  return {};
}

}  // namespace

base::Result<CompletionAsk> parse_completion(const Json& body) {
  const Fields fields(body);
  CompletionAsk result;
  Ask& ask = result.ask;
  RAFTER_ASSIGN(RawPrompt prompt, read_prompt(fields.find("prompt")));
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  Json without_logprobs = body;
  without_logprobs.erase("logprobs");
  RAFTER_TRY(read_sampling(Fields(without_logprobs), ask.sampling));
  RAFTER_TRY(read_logprobs(fields, ask.sampling));
  ask.max_tokens = kDefaultTokens;
  RAFTER_TRY(fields.read("max_tokens", ask.max_tokens, 1, kMostTokens));
  for (const char* name : {"n", "best_of"}) {
    std::optional<int64_t> count;
    RAFTER_TRY(fields.read(name, count, 1));
    if (count.value_or(1) > 1) return field_error(name, "must be 1: one answer per request");
  }
  std::string suffix;
  RAFTER_TRY(fields.read("suffix", suffix));
  if (!suffix.empty()) {
    if (!std::holds_alternative<std::string>(prompt.text))
      return field_error("suffix", "needs the prompt as text");
    prompt.suffix = suffix;
    prompt.is_infill = true;
  }
  bool echo = false;
  RAFTER_TRY(fields.read("echo", echo));
  if (echo) {
    if (!std::holds_alternative<std::string>(prompt.text))
      return field_error("echo", "needs the prompt as text");
    result.options.echo = std::get<std::string>(prompt.text);
  }
  RAFTER_TRY(read_stop(fields, "stop", ask.stop));
  RAFTER_TRY(fields.read("ignore_eos", ask.ignore_end));
  RAFTER_TRY(read_response_format(fields.find("response_format"), ask.json_schema));
  const Json* stream_options = nullptr;
  RAFTER_TRY(fields.read_object("stream_options", stream_options));
  if (stream_options != nullptr)
    RAFTER_TRY(Fields(*stream_options).read("include_usage", result.options.include_usage));
  result.options.logprobs = ask.sampling.top_logprobs >= 0;
  ask.prompt = std::move(prompt);
  return result;
}

std::unique_ptr<Reply> completion_reply(const CompletionOptions& options) {
  return std::make_unique<CompletionReply>(options);
}

}  // namespace rafter::serve

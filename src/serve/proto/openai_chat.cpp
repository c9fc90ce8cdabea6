#include "serve/proto/openai_chat.h"

#include "serve/proto/messages.h"

namespace rafter::serve {
namespace {

using Kind = text::OutputEvent::Kind;

class ChatReply : public Reply {
 public:
  explicit ChatReply(const ChatOptions& options) : options_(options) {}

  std::string begin() override { return chunk({{"role", "assistant"}, {"content", ""}}); }

  // One chunk per event; the tokens go with the first.
  std::string piece(const Piece& piece) override {
    std::string out;
    std::span<const TokenRecord> tokens = piece.tokens;
    for (const text::OutputEvent& event : piece.events) {
      Json delta = delta_of(event);
      if (delta.is_null()) continue;
      out += chunk(std::move(delta), nullptr, tokens);
      tokens = {};
    }
    if (out.empty() && !tokens.empty()) out = chunk({{"content", ""}}, nullptr, tokens);
    return out;
  }

  std::string end(const Answer& answer) override {
    Json last = envelope("chat.completion.chunk");
    last["choices"] = Json::array({choice(Json::object(), ending_name(answer.ending), {})});
    last["usage"] = openai_usage(answer.usage);
    last["timings"] = timings_json(answer.usage, answer.timings);
    last["seed"] = answer.seed;
    std::string out = sse_data(last);
    if (options_.include_usage) {
      Json usage = envelope("chat.completion.chunk");
      usage["choices"] = Json::array();
      usage["usage"] = openai_usage(answer.usage);
      out += sse_data(usage);
    }
    return out + "data: [DONE]\n\n";
  }

  std::string failure(const ApiError& error) override { return sse_data(openai_error(error)); }

  Json whole(const Answer& answer) override {
    Json message = {{"role", "assistant"}, {"content", answer.content}};
    if (answer.content.empty() && !answer.calls.empty()) message["content"] = nullptr;
    if (!answer.reasoning.empty()) {
      message["reasoning"] = answer.reasoning;
      message["reasoning_content"] = answer.reasoning;
    }
    for (const AnswerCall& call : answer.calls) {
      message["tool_calls"].push_back({{"id", call.id},
                                       {"type", "function"},
                                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    Json json = envelope("chat.completion");
    json["choices"] =
        Json::array({{{"index", 0},
                      {"message", std::move(message)},
                      {"logprobs", options_.logprobs ? logprobs_json(answer.tokens) : Json(nullptr)},
                      {"finish_reason", ending_name(answer.ending)}}});
    json["usage"] = openai_usage(answer.usage);
    json["timings"] = timings_json(answer.usage, answer.timings);
    json["seed"] = answer.seed;
    return json;
  }

 private:
  static Json delta_of(const text::OutputEvent& event) {
    switch (event.kind) {
      case Kind::reasoning:
        return {{"reasoning", event.text}, {"reasoning_content", event.text}};
      case Kind::content:
        return {{"content", event.text}};
      case Kind::call_start:
        return call_delta({{"index", event.index},
                           {"id", event.id},
                           {"type", "function"},
                           {"function", {{"name", event.name}, {"arguments", ""}}}});
      case Kind::call_arguments:
        return call_delta({{"index", event.index}, {"function", {{"arguments", event.text}}}});
      case Kind::call_end:
      case Kind::call_void:
        break;
    }
    return nullptr;
  }

  static Json call_delta(Json call) { return {{"tool_calls", Json::array({std::move(call)})}}; }

  Json envelope(const char* object) const {
    return {{"id", "chatcmpl-" + facts().id},
            {"object", object},
            {"created", facts().created},
            {"model", facts().model},
            {"system_fingerprint", "rafter"}};
  }

  Json choice(Json delta, const char* reason, std::span<const TokenRecord> tokens) const {
    return {{"index", 0},
            {"delta", std::move(delta)},
            {"logprobs", options_.logprobs && !tokens.empty() ? logprobs_json(tokens) : Json(nullptr)},
            {"finish_reason", reason != nullptr ? Json(reason) : Json(nullptr)}};
  }

  std::string chunk(Json delta, const char* reason = nullptr,
                    std::span<const TokenRecord> tokens = {}) const {
    Json json = envelope("chat.completion.chunk");
    json["choices"] = Json::array({choice(std::move(delta), reason, tokens)});
    return sse_data(json);
  }

  ChatOptions options_;
};

}  // namespace

base::Result<ChatAsk> parse_chat(const Json& body) {
  constexpr int64_t kMostTokens = 1 << 30;
  const Fields fields(body);
  ChatAsk result;
  Ask& ask = result.ask;
  Conversation conversation;
  RAFTER_ASSIGN(conversation.messages, normalise_messages(fields.find("messages")));
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  RAFTER_TRY(read_sampling(fields, ask.sampling));
  std::optional<int64_t> limit, older_limit, count;
  RAFTER_TRY(fields.read("max_completion_tokens", limit, 1, kMostTokens));
  RAFTER_TRY(fields.read("max_tokens", older_limit, 1, kMostTokens));
  ask.max_tokens = limit ? limit : older_limit;
  RAFTER_TRY(fields.read("n", count, 1));
  if (count.value_or(1) > 1) return field_error("n", "must be 1: one answer per request");
  RAFTER_TRY(read_stop(fields, "stop", ask.stop));
  RAFTER_TRY(fields.read("parallel_tool_calls", ask.parallel_calls));
  RAFTER_TRY(fields.read("ignore_eos", ask.ignore_end));
  RAFTER_TRY(read_tools(fields, conversation));
  RAFTER_TRY(read_tool_choice(fields, conversation.tool_choice));
  RAFTER_TRY(read_template_options(fields, conversation));
  RAFTER_TRY(read_response_format(fields.find("response_format"), ask.json_schema));
  const Json* stream_options = nullptr;
  RAFTER_TRY(fields.read_object("stream_options", stream_options));
  if (stream_options != nullptr)
    RAFTER_TRY(Fields(*stream_options).read("include_usage", result.options.include_usage));
  result.options.logprobs = ask.sampling.top_logprobs >= 0;
  ask.prompt = std::move(conversation);
  return result;
}

std::unique_ptr<Reply> chat_reply(const ChatOptions& options) { return std::make_unique<ChatReply>(options); }

}  // namespace rafter::serve

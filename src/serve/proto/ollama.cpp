#include "serve/proto/ollama.h"

#include <ctime>

#include "serve/proto/messages.h"

namespace rafter::serve {
namespace {

using Kind = text::OutputEvent::Kind;

// "2026-01-31T12:00:00Z"
std::string utc_time(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

void add_figures(const Answer& answer, Json& json) {
  json["done_reason"] = answer.ending == Ending::length ? "length" : "stop";
  json["total_duration"] = nanoseconds(answer.timings.prompt_seconds + answer.timings.predicted_seconds);
  json["load_duration"] = 0;
  json["prompt_eval_count"] = answer.usage.prompt;
  json["prompt_eval_duration"] = nanoseconds(answer.timings.prompt_seconds);
  json["eval_count"] = answer.usage.completion;
  json["eval_duration"] = nanoseconds(answer.timings.predicted_seconds);
}

Json call_json(const AnswerCall& call) {
  auto arguments = parse_json(call.arguments);
  return {{"function",
           {{"name", call.name}, {"arguments", arguments.ok() ? std::move(*arguments) : Json::object()}}}};
}

class OllamaReply : public Reply {
 public:
  explicit OllamaReply(bool is_chat) : is_chat_(is_chat) {}

  const char* stream_type() const override { return "application/x-ndjson"; }
  std::string begin() override { return ""; }
  std::string keep_alive(const std::string&) override {
    return "";
  }  // the format has nothing that says nothing

  std::string piece(const Piece& piece) override {
    std::string out;
    for (const text::OutputEvent& event : piece.events) {
      switch (event.kind) {
        case Kind::reasoning:
          out += line("", event.text);
          break;
        case Kind::content:
          out += line(event.text, "");
          break;
        case Kind::call_start:
          call_ = {event.id, event.name, ""};
          break;
        case Kind::call_arguments:
          call_.arguments += event.text;
          break;
        case Kind::call_end:
          if (is_chat_) out += line("", "", {call_});
          break;
        case Kind::call_void:
          break;
      }
    }
    return out;
  }

  std::string end(const Answer& answer) override {
    Json last = body("", "", {}, true);
    add_figures(answer, last);
    return to_text(last) + "\n";
  }

  std::string failure(const ApiError& error) override { return to_text(ollama_error(error.message)) + "\n"; }
  Json refusal(const ApiError& error) override { return ollama_error(error.message); }

  Json whole(const Answer& answer) override {
    Json json = body(answer.content, answer.reasoning, answer.calls, true);
    add_figures(answer, json);
    return json;
  }

 private:
  Json body(const std::string& text, const std::string& thinking, const std::vector<AnswerCall>& calls,
            bool done) const {
    Json json = {{"model", facts().model}, {"created_at", utc_time(facts().created)}};
    if (is_chat_) {
      Json message = {{"role", "assistant"}, {"content", text}};
      if (!thinking.empty()) message["thinking"] = thinking;
      for (const AnswerCall& call : calls) message["tool_calls"].push_back(call_json(call));
      json["message"] = std::move(message);
    } else {
      json["response"] = text;
      if (!thinking.empty()) json["thinking"] = thinking;
    }
    json["done"] = done;
    return json;
  }

  std::string line(const std::string& text, const std::string& thinking,
                   const std::vector<AnswerCall>& calls = {}) const {
    return to_text(body(text, thinking, calls, false)) + "\n";
  }

  bool is_chat_;
  AnswerCall call_;
};

// `options`, with llama.cpp's names.
base::Status read_options(const Fields& fields, Ask& ask) {
  const Json* object = nullptr;
  RAFTER_TRY(fields.read_object("options", object));
  if (object == nullptr) return {};
  Json options = *object;
  constexpr int64_t kMostTokens = 1 << 30;
  for (const auto& [theirs, ours] : {std::pair("repeat_penalty", "repetition_penalty"),
                                     std::pair("repeat_last_n", "repetition_context_size")}) {
    if (options.contains(theirs)) options[ours] = options[theirs];
  }
  if (const auto window = options.find("repetition_context_size"); window != options.end() && *window == -1)
    *window = 0;  // all
  RAFTER_TRY(read_sampling(Fields(options), ask.sampling));
  std::optional<int64_t> limit;
  RAFTER_TRY(Fields(options).read("num_predict", limit, -2, kMostTokens));
  if (limit && *limit > 0) ask.max_tokens = limit;
  return read_stop(Fields(options), "stop", ask.stop);
}

// `format`: "json" or a schema.
base::Status read_format(const Fields& fields, Ask& ask) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return {};
  if (*format == "json") {
    ask.json_schema = "{\"type\":\"object\"}";
  } else if (format->is_object()) {
    ask.json_schema = to_text(*format);
  } else {
    return field_error("format", "must be json or a schema");
  }
  return {};
}

// `think`: whether, or how much.
base::Status read_think(const Fields& fields, Conversation& conversation) {
  const Json* think = fields.find("think");
  if (think == nullptr) return {};
  if (think->is_boolean()) {
    conversation.enable_thinking = think->get<bool>();
    return {};
  }
  if (!think->is_string()) return field_error("think", "must be of type bool or string");
  return apply_effort(think->get<std::string>(), conversation);
}

base::Status refuse_images(const Json& holder, const char* name) {
  const auto images = holder.find("images");
  if (images != holder.end() && images->is_array() && !images->empty())
    return field_error(name, "holds images, and the model takes text only");
  return {};
}

base::Status read_common(const Fields& fields, Ask& ask) {
  ask.stream = true;  // unless told otherwise
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  RAFTER_TRY(read_options(fields, ask));
  return read_format(fields, ask);
}

}  // namespace

base::Result<Ask> parse_ollama_chat(const Json& body) {
  const Fields fields(body);
  Ask ask;
  Conversation conversation;
  RAFTER_TRY(read_common(fields, ask));
  const Json* given = fields.find("messages");
  Json messages = given != nullptr ? *given : Json();
  if (messages.is_array()) {
    for (Json& message : messages) {
      if (!message.is_object()) continue;  // refused below
      RAFTER_TRY(refuse_images(message, "messages"));
      if (message.contains("thinking")) message["reasoning_content"] = message["thinking"];
      if (message.contains("tool_name")) message["name"] = message["tool_name"];
    }
  }
  RAFTER_ASSIGN(conversation.messages, normalise_messages(&messages));
  RAFTER_TRY(read_tools(fields, conversation));
  RAFTER_TRY(read_think(fields, conversation));
  ask.prompt = std::move(conversation);
  return ask;
}

base::Result<Ask> parse_ollama_generate(const Json& body) {
  const Fields fields(body);
  Ask ask;
  RAFTER_TRY(read_common(fields, ask));
  RAFTER_TRY(refuse_images(body, "images"));
  std::string prompt, system, suffix;
  bool raw = false;
  RAFTER_TRY(fields.read("prompt", prompt));
  RAFTER_TRY(fields.read("system", system));
  RAFTER_TRY(fields.read("suffix", suffix));
  RAFTER_TRY(fields.read("raw", raw));
  if (raw || !suffix.empty() || prompt.empty()) {
    ask.prompt = RawPrompt{prompt, suffix, !suffix.empty()};
    return ask;
  }
  Conversation conversation;
  if (!system.empty()) conversation.messages.push_back({{"role", "system"}, {"content", system}});
  conversation.messages.push_back({{"role", "user"}, {"content", prompt}});
  RAFTER_TRY(read_think(fields, conversation));
  ask.prompt = std::move(conversation);
  return ask;
}

bool is_ollama_load(const Ask& ask) {
  const auto* raw = std::get_if<RawPrompt>(&ask.prompt);
  const auto* text = raw != nullptr ? std::get_if<std::string>(&raw->text) : nullptr;
  return text != nullptr && text->empty() && !raw->is_infill;
}

std::unique_ptr<Reply> ollama_chat_reply() { return std::make_unique<OllamaReply>(true); }
std::unique_ptr<Reply> ollama_generate_reply() { return std::make_unique<OllamaReply>(false); }

Json ollama_loaded(const std::string& model) {
  return {{"model", model},
          {"created_at", utc_time(std::time(nullptr))},
          {"response", ""},
          {"done", true},
          {"done_reason", "load"}};
}

namespace {

Json details(const OllamaModel& model) {
  return {{"parent_model", ""},     {"format", "rafter"},
          {"family", model.family}, {"families", Json::array({model.family})},
          {"parameter_size", ""},   {"quantization_level", model.quantization}};
}

}  // namespace

Json ollama_tags(const OllamaModel& model) {
  return {{"models", Json::array({{{"name", model.card.id},
                                   {"model", model.card.id},
                                   {"modified_at", utc_time(model.card.created)},
                                   {"size", 0},
                                   {"digest", ""},
                                   {"details", details(model)}}})}};
}

Json ollama_show(const OllamaModel& model) {
  const std::string family = model.family.empty() ? "model" : model.family;
  Json capabilities = Json::array({model.card.embeddings ? "embedding" : "completion"});
  if (model.card.tools) capabilities.push_back("tools");
  if (model.card.reasoning) capabilities.push_back("thinking");
  return {
      {"modelfile", ""},
      {"parameters", ""},
      {"template", model.chat_template},
      {"details", details(model)},
      {"model_info", {{"general.architecture", family}, {family + ".context_length", model.card.context}}},
      {"capabilities", std::move(capabilities)}};
}

Json ollama_error(const std::string& message) { return {{"error", message}}; }

}  // namespace rafter::serve

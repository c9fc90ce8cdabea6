// The request's side of /v1/responses: items become messages.
#include <fmt/format.h>

#include "serve/proto/messages.h"
#include "serve/proto/openai_responses.h"

namespace rafter::serve {
namespace {

base::Error item_error(size_t index, const std::string& what) {
  return {base::ErrorCode::invalid_argument, fmt::format("input[{}]: {}", index, what), "input", ""};
}

std::string text_field(const Json& item, const char* name) {
  const auto found = item.find(name);
  return found != item.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Items in order, gathered to messages.
class Gatherer {
 public:
  Gatherer(Json& messages, std::string& system) : messages_(messages), system_(system) {}

  base::Status read(const Json& item, size_t index) {
    if (!item.is_object()) return item_error(index, "must be an object");
    std::string type = text_field(item, "type");
    if (type.empty() && item.contains("role")) type = "message";
    if (type == "message") return read_message(item, index);
    if (type == "function_call") return read_call(item, index);
    if (type == "function_call_output") return read_output(item, index);
    if (type == "reasoning") {
      read_reasoning(item);
      return {};
    }
    if (type == "item_reference") return item_error(index, "references to items are not supported");
    if (type.empty()) return item_error(index, "must have a type");
    return {};  // what OpenAI's servers run themselves
  }

 private:
  base::Status read_message(const Json& item, size_t index) {
    const std::string role = text_field(item, "role");
    if (role.empty()) return item_error(index, "a message must have a role");
    RAFTER_ASSIGN(std::string text, content_text(item.contains("content") ? item["content"] : Json(nullptr),
                                                 fmt::format("input[{}]", index)));
    if (role == "system" || role == "developer") {
      if (!system_.empty() && !text.empty()) system_ += "\n\n";
      system_ += text;
      return {};
    }
    Json message = {{"role", role}, {"content", std::move(text)}};
    if (role == "assistant") take_reasoning(message);
    messages_.push_back(std::move(message));
    return {};
  }

  // Calls belong to the assistant's message in front of them.
  base::Status read_call(const Json& item, size_t index) {
    if (text_field(item, "name").empty()) return item_error(index, "a function_call must have a name");
    const bool joins = !messages_.empty() && messages_.back()["role"] == "assistant";
    if (!joins) messages_.push_back({{"role", "assistant"}, {"content", ""}});
    Json& message = messages_.back();
    take_reasoning(message);
    message["tool_calls"].push_back(
        {{"id", text_field(item, "call_id")},
         {"type", "function"},
         {"function", {{"name", text_field(item, "name")}, {"arguments", text_field(item, "arguments")}}}});
    return {};
  }

  base::Status read_output(const Json& item, size_t index) {
    RAFTER_ASSIGN(std::string text, content_text(item.contains("output") ? item["output"] : Json(nullptr),
                                                 fmt::format("input[{}]", index), "\n"));
    messages_.push_back(
        {{"role", "tool"}, {"tool_call_id", text_field(item, "call_id")}, {"content", std::move(text)}});
    return {};
  }

  void read_reasoning(const Json& item) {
    for (const char* key : {"content", "summary"}) {
      const auto parts = item.find(key);
      if (parts == item.end() || !parts->is_array() || parts->empty()) continue;
      for (const Json& part : *parts) {
        if (part.is_object()) reasoning_ += text_field(part, "text");
      }
      return;
    }
  }

  void take_reasoning(Json& message) {
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  }

  Json& messages_;
  std::string& system_;
  std::string reasoning_;  // in front of the assistant's next item
};

base::Status read_input(const Fields& fields, Json& messages, std::string& system) {
  const Json* input = fields.find("input");
  if (input == nullptr) return field_error("input", "is required");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return {};
  }
  if (!input->is_array()) return field_error("input", "must be a string or an array of items");
  Gatherer gatherer(messages, system);
  for (size_t i = 0; i < input->size(); ++i) RAFTER_TRY(gatherer.read((*input)[i], i));
  return {};
}

// The fields that a response repeats, with what they default to.
Json echo_of(const Json& body, const ResponsesAsk& ask) {
  Json echo = {{"instructions", ask.instructions.empty() ? Json(nullptr) : Json(ask.instructions)},
               {"max_output_tokens", ask.ask.max_tokens ? Json(*ask.ask.max_tokens) : Json(nullptr)},
               {"parallel_tool_calls", ask.ask.parallel_calls},
               {"previous_response_id", nullptr},
               {"store", ask.store},
               {"temperature", nullptr},
               {"top_p", nullptr},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"truncation", "disabled"},
               {"metadata", Json::object()}};
  for (const char* key : {"previous_response_id", "temperature", "top_p", "text", "tool_choice", "tools",
                          "reasoning", "metadata"}) {
    const auto given = body.find(key);
    if (given != body.end() && !given->is_null()) echo[key] = *given;
  }
  return echo;
}

base::Status read_options(const Fields& fields, Ask& ask, Conversation& conversation) {
  constexpr int64_t kMostTokens = 1 << 30;
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  RAFTER_TRY(read_sampling(fields, ask.sampling));
  ask.sampling.top_logprobs = -1;
  std::optional<int64_t> limit, other_limit;
  RAFTER_TRY(fields.read("max_output_tokens", limit, 1, kMostTokens));
  RAFTER_TRY(fields.read("max_tokens", other_limit, 1, kMostTokens));
  ask.max_tokens = limit ? limit : other_limit;
  RAFTER_TRY(read_stop(fields, "stop", ask.stop));
  RAFTER_TRY(fields.read("parallel_tool_calls", ask.parallel_calls));
  RAFTER_TRY(read_tools(fields, conversation));
  RAFTER_TRY(read_tool_choice(fields, conversation.tool_choice));
  RAFTER_TRY(read_template_options(fields, conversation));
  const Json *reasoning = nullptr, *text = nullptr;
  RAFTER_TRY(fields.read_object("reasoning", reasoning));
  if (reasoning != nullptr) {
    std::string effort;
    RAFTER_TRY(Fields(*reasoning).read("effort", effort));
    if (!effort.empty()) RAFTER_TRY(apply_effort(effort, conversation));
  }
  RAFTER_TRY(fields.read_object("text", text));
  if (text != nullptr) RAFTER_TRY(read_response_format(Fields(*text).find("format"), ask.json_schema));
  const Json* metadata = nullptr;
  RAFTER_TRY(fields.read_object("metadata", metadata));
  bool background = false;
  RAFTER_TRY(fields.read("background", background));
  if (background) return field_error("background", "must be false");
  return {};
}

}  // namespace

base::Result<std::string> previous_response_id(const Json& body) {
  std::string id;
  RAFTER_TRY(Fields(body).read("previous_response_id", id));
  return id;
}

base::Result<ResponsesAsk> parse_responses(const Json& body, const StoredResponse* previous) {
  const Fields fields(body);
  ResponsesAsk result;
  Conversation conversation;
  std::optional<std::string> instructions;
  RAFTER_TRY(fields.read("instructions", instructions));
  result.instructions = instructions ? *instructions : previous != nullptr ? previous->instructions : "";
  RAFTER_TRY(fields.read("store", result.store));
  if (previous != nullptr) result.messages = previous->messages;
  std::string system = result.instructions;
  // A system message of an earlier turn stays in front.
  if (!result.messages.empty() && result.messages[0]["role"] == "system") {
    const std::string earlier = result.messages[0]["content"];
    system += (system.empty() ? "" : "\n\n") + earlier;
    result.messages.erase(0);
  }
  RAFTER_TRY(read_input(fields, result.messages, system));
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  for (const Json& message : result.messages) messages.push_back(message);
  RAFTER_ASSIGN(conversation.messages, normalise_messages(&messages));
  RAFTER_TRY(read_options(fields, result.ask, conversation));
  // What was said by system messages, not by instructions, belongs to the conversation.
  if (system.size() > result.instructions.size()) {
    std::string_view said = std::string_view(system).substr(result.instructions.size());
    if (said.starts_with("\n\n")) said.remove_prefix(2);
    result.messages.insert(result.messages.begin(), Json{{"role", "system"}, {"content", said}});
  }
  result.ask.prompt = std::move(conversation);
  result.echo = echo_of(body, result);
  return result;
}

StoredResponse stored_response(const ResponsesAsk& ask, const Answer& answer, Json response) {
  Json messages = ask.messages;
  Json said = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) said["reasoning_content"] = answer.reasoning;
  for (const AnswerCall& call : answer.calls) {
    said["tool_calls"].push_back({{"id", call.id},
                                  {"type", "function"},
                                  {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  messages.push_back(std::move(said));
  return {std::move(response), std::move(messages), ask.instructions};
}

}  // namespace rafter::serve

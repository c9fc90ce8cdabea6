#include "serve/proto/anthropic_messages.h"

#include <fmt/format.h>

#include "serve/proto/messages.h"

namespace rafter::serve {
namespace {

using Kind = text::OutputEvent::Kind;

base::Error message_error(size_t index, const std::string& what) {
  return {base::ErrorCode::invalid_argument, fmt::format("messages.{}: {}", index, what), "messages", ""};
}

// A string field of a block; empty if it is not there.
std::string text_field(const Json& block, const char* name) {
  const auto found = block.find(name);
  return found != block.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The blocks of one message, gathered.
struct Turn {
  std::string text, reasoning;
  Json calls = Json::array();
  bool has_text = false;
};

// One block. A tool result is a message of its own, in front of the turn's text.
base::Status read_block(const Json& block, size_t index, Turn& turn, Json& out) {
  if (!block.is_object()) return message_error(index, "a content block must be an object");
  const std::string type = text_field(block, "type");
  if (type == "text") {
    if (!block.contains("text") || !block["text"].is_string())
      return message_error(index, "a text block must have a text");
    turn.text += block["text"].get_ref<const std::string&>();
    turn.has_text = true;
  } else if (type == "thinking") {
    turn.reasoning += text_field(block, "thinking");
  } else if (type == "tool_use") {
    Json input = block.contains("input") && block["input"].is_object() ? block["input"] : Json::object();
    if (text_field(block, "name").empty()) return message_error(index, "a tool_use block must have a name");
    turn.calls.push_back(
        {{"id", text_field(block, "id")},
         {"type", "function"},
         {"function", {{"name", text_field(block, "name")}, {"arguments", std::move(input)}}}});
  } else if (type == "tool_result") {
    RAFTER_ASSIGN(std::string text, content_text(block.contains("content") ? block["content"] : Json(nullptr),
                                                 fmt::format("messages.{}", index), "\n"));
    out.push_back(
        {{"role", "tool"}, {"tool_call_id", text_field(block, "tool_use_id")}, {"content", std::move(text)}});
  } else if (type == "image" || type == "document") {
    return message_error(index, "the model takes text only, not " + type);
  } else if (type.empty()) {
    return message_error(index, "a content block must have a type");
  }
  return {};  // redacted thinking and what servers run themselves say nothing to this model
}

base::Status read_message(const Json& message, size_t index, Json& out) {
  const std::string role = message.is_object() ? text_field(message, "role") : "";
  if (role != "user" && role != "assistant" && role != "system")
    return message_error(index, "the role must be user or assistant");
  const auto content = message.find("content");
  if (content == message.end()) return message_error(index, "content required");
  Turn turn;
  if (content->is_string()) {
    turn.text = content->get<std::string>();
    turn.has_text = true;
  } else if (content->is_array()) {
    for (const Json& block : *content) RAFTER_TRY(read_block(block, index, turn, out));
  } else {
    return message_error(index, "content must be a string or an array of blocks");
  }
  const bool is_only_results = role == "user" && !turn.has_text && !content->empty();
  if (is_only_results) return {};
  Json result = {{"role", role}, {"content", turn.text}};
  if (!turn.reasoning.empty()) result["reasoning_content"] = turn.reasoning;
  if (!turn.calls.empty()) result["tool_calls"] = std::move(turn.calls);
  out.push_back(std::move(result));
  return {};
}

base::Status read_system(const Json& body, Json& messages) {
  const auto system = body.find("system");
  if (system == body.end() || system->is_null()) return {};
  Json blocks = *system;
  // The first block may be such a header alone.
  if (blocks.is_array() && blocks.size() > 1 && blocks[0].is_object() &&
      strip_volatile_headers(text_field(blocks[0], "text")).empty())
    blocks.erase(0);
  RAFTER_ASSIGN(std::string text, content_text(blocks, "system", "\n"));
  if (!text.empty()) messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  return {};
}

base::Status read_claude_tools(const Fields& fields, Conversation& out) {
  const Json* tools = nullptr;
  RAFTER_TRY(fields.read_array("tools", tools));
  if (tools == nullptr) return {};
  for (const Json& tool : *tools) {
    if (!tool.is_object()) return field_error("tools", "must be an array of objects");
    if (!tool.contains("input_schema")) continue;  // what Anthropic's servers run themselves
    Json function = {{"name", tool.contains("name") ? tool["name"] : Json(nullptr)}};
    if (tool.contains("description")) function["description"] = tool["description"];
    function["parameters"] = tool["input_schema"];
    if (tool.contains("strict")) function["strict"] = tool["strict"];
    RAFTER_TRY(add_tool(function, out));
  }
  return {};
}

base::Status read_claude_choice(const Fields& fields, Ask& ask, ToolChoice& out) {
  const Json* choice = nullptr;
  RAFTER_TRY(fields.read_object("tool_choice", choice));
  if (choice == nullptr) return {};
  const std::string type = text_field(*choice, "type");
  if (type == "none") {
    out.kind = ToolChoice::Kind::none;
  } else if (type == "any") {
    out.kind = ToolChoice::Kind::required;
  } else if (type == "tool") {
    out = {ToolChoice::Kind::named, text_field(*choice, "name")};
  } else if (type != "auto") {
    return field_error("tool_choice", "must be of type auto, any, tool or none");
  }
  bool disabled = false;
  RAFTER_TRY(Fields(*choice).read("disable_parallel_tool_use", disabled));
  ask.parallel_calls = !disabled;
  return {};
}

base::Status read_thinking(const Fields& fields, Conversation& out) {
  const Json* thinking = nullptr;
  RAFTER_TRY(fields.read_object("thinking", thinking));
  if (thinking == nullptr) return {};
  const std::string type = text_field(*thinking, "type");
  constexpr int64_t kMostBudget = 1 << 30;
  std::optional<int64_t> budget;
  RAFTER_TRY(Fields(*thinking).read("budget_tokens", budget, 0, kMostBudget));
  if (type == "enabled" && budget) out.reasoning_budget = budget;
  if (out.enable_thinking) return {};
  if (type == "enabled") out.enable_thinking = true;
  if (type == "disabled") out.enable_thinking = false;
  return {};
}

// A turn of a model that only takes text: "end_turn", "max_tokens", "tool_use", "stop_sequence".
Json stop_reason(const Answer& answer) {
  if (answer.ending == Ending::tool_calls) return "tool_use";
  if (answer.ending == Ending::length) return "max_tokens";
  return answer.stop_string ? "stop_sequence" : "end_turn";
}

Json stop_sequence(const Answer& answer) {
  const bool ended = answer.ending == Ending::stop && answer.stop_string.has_value();
  return ended ? Json(*answer.stop_string) : Json(nullptr);
}

// What was computed and what was reused are counted apart.
Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion}};
}

class MessagesReply : public Reply {
 public:
  std::string begin() override {
    Json message = envelope();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = usage_json({.prompt = facts().prompt_tokens});
    return sse_event("message_start", {{"type", "message_start"}, {"message", std::move(message)}}) +
           keep_alive("");
  }

  std::string keep_alive(const std::string&) override { return sse_event("ping", {{"type", "ping"}}); }

  std::string piece(const Piece& piece) override {
    std::string out;
    for (const text::OutputEvent& event : piece.events) {
      switch (event.kind) {
        case Kind::reasoning:
          out += in_block("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
          out += delta({{"type", "thinking_delta"}, {"thinking", event.text}});
          break;
        case Kind::content:
          out += in_block("text", {{"type", "text"}, {"text", ""}});
          out += delta({{"type", "text_delta"}, {"text", event.text}});
          break;
        case Kind::call_start:
          out += close_block();
          out += open_block(
              "tool_use",
              {{"type", "tool_use"}, {"id", event.id}, {"name", event.name}, {"input", Json::object()}});
          break;
        case Kind::call_arguments:
          out += delta({{"type", "input_json_delta"}, {"partial_json", event.text}});
          break;
        case Kind::call_end:
        case Kind::call_void:
          out += close_block();
          break;
      }
    }
    return out;
  }

  std::string end(const Answer& answer) override {
    std::string out = close_block();
    // A turn has a block, if an empty one.
    if (next_index_ == 0) {
      out += open_block("text", {{"type", "text"}, {"text", ""}});
      out += close_block();
    }
    out += sse_event(
        "message_delta",
        {{"type", "message_delta"},
         {"delta", {{"stop_reason", stop_reason(answer)}, {"stop_sequence", stop_sequence(answer)}}},
         {"usage", usage_json(answer.usage)}});
    return out + sse_event("message_stop", {{"type", "message_stop"}});
  }

  std::string failure(const ApiError& error) override { return sse_event("error", anthropic_error(error)); }
  Json refusal(const ApiError& error) override { return anthropic_error(error); }

  Json whole(const Answer& answer) override {
    Json content = Json::array();
    if (!answer.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
    if (!answer.content.empty() || (answer.calls.empty() && answer.reasoning.empty()))
      content.push_back({{"type", "text"}, {"text", answer.content}});
    for (const AnswerCall& call : answer.calls) {
      auto input = parse_json(call.arguments);
      content.push_back({{"type", "tool_use"},
                         {"id", call.id},
                         {"name", call.name},
                         {"input", input.ok() ? std::move(*input) : Json::object()}});
    }
    Json message = envelope();
    message["content"] = std::move(content);
    message["stop_reason"] = stop_reason(answer);
    message["stop_sequence"] = stop_sequence(answer);
    message["usage"] = usage_json(answer.usage);
    return message;
  }

 private:
  Json envelope() const {
    return {{"id", "msg_" + facts().id.substr(0, 24)},
            {"type", "message"},
            {"role", "assistant"},
            {"model", facts().model}};
  }

  // The open block if it is of this kind, else a new one.
  std::string in_block(const std::string& kind, Json block) {
    if (open_ == kind) return "";
    std::string out = close_block();  // one after the other: each changes what the next writes
    return out + open_block(kind, std::move(block));
  }

  std::string open_block(const std::string& kind, Json block) {
    open_ = kind;
    return sse_event(
        "content_block_start",
        {{"type", "content_block_start"}, {"index", next_index_++}, {"content_block", std::move(block)}});
  }

  std::string close_block() {
    if (open_.empty()) return "";
    std::string out;
    if (open_ == "thinking") out = delta({{"type", "signature_delta"}, {"signature", ""}});
    open_.clear();
    return out +
           sse_event("content_block_stop", {{"type", "content_block_stop"}, {"index", next_index_ - 1}});
  }

  std::string delta(Json change) const {
    return sse_event(
        "content_block_delta",
        {{"type", "content_block_delta"}, {"index", next_index_ - 1}, {"delta", std::move(change)}});
  }

  int next_index_ = 0;
  std::string open_;  // the kind of the open block; empty: none
};

}  // namespace

base::Result<Ask> parse_messages(const Json& body, bool counts_only) {
  constexpr int64_t kMostTokens = 1 << 30;
  const Fields fields(body);
  Ask ask;
  Conversation conversation;
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    return base::Error{base::ErrorCode::invalid_argument, "messages required", "messages", ""};
  Json turns = Json::array();
  RAFTER_TRY(read_system(body, turns));
  for (size_t i = 0; i < messages->size(); ++i) RAFTER_TRY(read_message((*messages)[i], i, turns));
  RAFTER_ASSIGN(conversation.messages, normalise_messages(&turns));
  RAFTER_TRY(fields.read("model", ask.model));
  RAFTER_TRY(fields.read("stream", ask.stream));
  RAFTER_TRY(fields.read("max_tokens", ask.max_tokens, 1, kMostTokens));
  if (!counts_only && !ask.max_tokens) return field_error("max_tokens", "is required");
  RAFTER_TRY(read_sampling(fields, ask.sampling));
  ask.sampling.top_logprobs = -1;  // the protocol has no place for them
  RAFTER_TRY(read_stop(fields, "stop_sequences", ask.stop));
  RAFTER_TRY(read_claude_tools(fields, conversation));
  RAFTER_TRY(read_claude_choice(fields, ask, conversation.tool_choice));
  RAFTER_TRY(read_template_options(fields, conversation));
  RAFTER_TRY(read_thinking(fields, conversation));
  ask.prompt = std::move(conversation);
  return ask;
}

std::unique_ptr<Reply> messages_reply() { return std::make_unique<MessagesReply>(); }

}  // namespace rafter::serve

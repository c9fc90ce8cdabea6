// The answer's side of /v1/responses: events become items.
#include "serve/proto/openai_responses.h"

namespace rafter::serve {
namespace {

using Kind = text::OutputEvent::Kind;

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

Json summary_part(const std::string& text) { return {{"type", "summary_text"}, {"text", text}}; }
Json text_part(const std::string& text) {
  return {
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json reasoning_item(const std::string& id, const std::string& text) {
  Json summary = Json::array();
  if (!text.empty()) summary.push_back(summary_part(text));
  return {{"type", "reasoning"}, {"id", id}, {"summary", std::move(summary)}};
}

Json message_item(const std::string& id, const char* status, Json content) {
  return {{"type", "message"},
          {"id", id},
          {"role", "assistant"},
          {"status", status},
          {"content", std::move(content)}};
}

Json call_item(const std::string& id, const char* status, const AnswerCall& call) {
  return {{"type", "function_call"},     {"id", id},        {"call_id", call.id}, {"name", call.name},
          {"arguments", call.arguments}, {"status", status}};
}

class ResponsesReply : public Reply {
 public:
  explicit ResponsesReply(Json echo) : echo_(std::move(echo)) {}

  std::string begin() override {
    const Json response = envelope("in_progress", Json::array());
    std::string out = event("response.created", {{"response", response}});  // numbered as they are made
    return out + event("response.in_progress", {{"response", response}});
  }

  std::string piece(const Piece& piece) override {
    std::string out;
    for (const text::OutputEvent& change : piece.events) {
      switch (change.kind) {
        case Kind::reasoning:
          out += on_reasoning(change.text);
          break;
        case Kind::content:
          out += on_content(change.text);
          break;
        case Kind::call_start:
          out += on_call_start(change);
          break;
        case Kind::call_arguments:
          call_.arguments += change.text;
          out += event("response.function_call_arguments.delta", in_item({{"delta", change.text}}));
          break;
        case Kind::call_end:
          out += close_item("completed");
          break;
        case Kind::call_void:
          out += close_item("incomplete");
          break;
      }
    }
    return out;
  }

  std::string end(const Answer& answer) override {
    std::string out = close_item(answer.ending == Ending::length ? "incomplete" : "completed");
    const Json response = finished(answer, items_);
    return out + event(answer.ending == Ending::length ? "response.incomplete" : "response.completed",
                       {{"response", response}});
  }

  std::string failure(const ApiError& error) override {
    return event("error", {{"code", error.code.empty() ? "server_error" : error.code},
                           {"message", error.message},
                           {"param", nullptr}});
  }

  Json whole(const Answer& answer) override {
    const char* const status = answer.ending == Ending::length ? "incomplete" : "completed";
    Json items = Json::array();
    int index = 0;
    if (!answer.reasoning.empty()) items.push_back(reasoning_item(item_id("rs", index++), answer.reasoning));
    if (!answer.content.empty() || answer.calls.empty())
      items.push_back(
          message_item(item_id("msg", index++), status, Json::array({text_part(answer.content)})));
    for (const AnswerCall& call : answer.calls)
      items.push_back(call_item(item_id("fc", index++), "completed", call));
    return finished(answer, std::move(items));
  }

 private:
  enum class Open { nothing, reasoning, message, call };

  std::string item_id(const char* kind, int index) const {
    return std::string(kind) + "_" + facts().id.substr(0, 24) + std::to_string(index);
  }

  Json envelope(const char* status, Json output) const {
    Json response = {{"id", "resp_" + facts().id.substr(0, 24)},
                     {"object", "response"},
                     {"created_at", facts().created},
                     {"status", status},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"model", facts().model},
                     {"output", std::move(output)},
                     {"usage", nullptr}};
    for (const auto& [key, value] : echo_.items()) response[key] = value;
    return response;
  }

  Json finished(const Answer& answer, Json items) const {
    const bool is_cut = answer.ending == Ending::length;
    Json response = envelope(is_cut ? "incomplete" : "completed", std::move(items));
    if (is_cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["usage"] = usage_json(answer.usage);
    return response;
  }

  std::string event(const char* type, Json json) {
    Json all = {{"type", type}, {"sequence_number", sequence_++}};
    for (auto& [key, value] : json.items()) all[key] = std::move(value);
    return sse_event(type, all);
  }

  Json in_item(Json more) const {
    Json json = {{"item_id", id_}, {"output_index", index_}};
    for (auto& [key, value] : more.items()) json[key] = std::move(value);
    return json;
  }

  std::string open_item(Open open, const char* kind,
                        Json (*item)(const std::string& id, const AnswerCall& call)) {
    std::string out = close_item("completed");
    open_ = open;
    ++index_;
    id_ = item_id(kind, index_);
    text_.clear();
    return out + event("response.output_item.added", {{"output_index", index_}, {"item", item(id_, call_)}});
  }

  std::string on_reasoning(const std::string& text) {
    std::string out;
    if (open_ != Open::reasoning) {
      out = open_item(Open::reasoning, "rs",
                      [](const std::string& id, const AnswerCall&) { return reasoning_item(id, ""); });
      out += event("response.reasoning_summary_part.added",
                   in_item({{"summary_index", 0}, {"part", summary_part("")}}));
    }
    text_ += text;
    return out +
           event("response.reasoning_summary_text.delta", in_item({{"summary_index", 0}, {"delta", text}}));
  }

  std::string on_content(const std::string& text) {
    std::string out;
    if (open_ != Open::message) {
      out = open_item(Open::message, "msg", [](const std::string& id, const AnswerCall&) {
        return message_item(id, "in_progress", Json::array());
      });
      out += event("response.content_part.added", in_item({{"content_index", 0}, {"part", text_part("")}}));
    }
    text_ += text;
    return out + event("response.output_text.delta",
                       in_item({{"content_index", 0}, {"delta", text}, {"logprobs", Json::array()}}));
  }

  std::string on_call_start(const text::OutputEvent& change) {
    std::string out = close_item("completed");
    call_ = {change.id, change.name, ""};
    return out + open_item(Open::call, "fc", [](const std::string& id, const AnswerCall& call) {
             return call_item(id, "in_progress", call);
           });
  }

  // The events that end the open item, which joins the output unless it is a call that came to nothing.
  std::string close_item(const char* status) {
    const Open open = std::exchange(open_, Open::nothing);
    if (open == Open::nothing) return "";
    std::string out;
    Json item;
    if (open == Open::reasoning) {
      out = event("response.reasoning_summary_text.done", in_item({{"summary_index", 0}, {"text", text_}}));
      out += event("response.reasoning_summary_part.done",
                   in_item({{"summary_index", 0}, {"part", summary_part(text_)}}));
      item = reasoning_item(id_, text_);
    } else if (open == Open::message) {
      const Json part = text_part(text_);
      out = event("response.output_text.done",
                  in_item({{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}}));
      out += event("response.content_part.done", in_item({{"content_index", 0}, {"part", part}}));
      item = message_item(id_, status, Json::array({part}));
    } else {
      out = event("response.function_call_arguments.done",
                  in_item({{"name", call_.name}, {"arguments", call_.arguments}}));
      item = call_item(id_, status, call_);
    }
    out += event("response.output_item.done", {{"output_index", index_}, {"item", item}});
    const bool is_void = open == Open::call && std::string_view(status) == "incomplete";
    if (!is_void) items_.push_back(std::move(item));
    return out;
  }

  Json echo_;
  Json items_ = Json::array();
  int64_t sequence_ = 0;
  int index_ = -1;  // of the open item
  Open open_ = Open::nothing;
  std::string id_, text_;
  AnswerCall call_;
};

}  // namespace

std::unique_ptr<Reply> responses_reply(const Json& echo) { return std::make_unique<ResponsesReply>(echo); }

}  // namespace rafter::serve

// Calls as JSON between tags: Hermes, Qwen 2.5 and 3, QwQ, SmolLM. <tool_call>{"name": …, "arguments":
// {…}}</tool_call>, also several objects or an array of them between one pair of tags.
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

// What the members of a call's object have told so far.
struct CallObject {
  std::string name, id;
  bool has_name = false;
  bool has_arguments = false;
  std::string early;  // arguments that came in front of the name
};

// Arguments go to the call if it is begun, and wait for the name otherwise.
class ArgumentSink : public TextSink {
 public:
  ArgumentSink(CallWriter& calls, CallObject& object) : calls_(calls), object_(object) {}
  void write(std::string_view text) override {
    if (calls_.is_open()) return calls_.write(text);
    object_.early += text;
  }

 private:
  CallWriter& calls_;
  CallObject& object_;
};

class NoSink : public TextSink {
 public:
  void write(std::string_view) override {}
};

Reading read_arguments(CallContext& context, CallObject& object) {
  if (object.has_arguments) throw Malformed{};
  object.has_arguments = true;
  ArgumentSink sink(context.calls, object);
  const int c = co_await context.in.peek_visible();
  if (c == '{') {
    co_await copy_json(context.in, sink);
    co_return;
  }
  std::string text;
  if (c == '"') {  // JSON inside a string
    co_await read_json_string(context.in, Source::kMostRecorded, text);
  } else {
    StringSink word;
    co_await copy_json(context.in, word);
    if (word.text != "null") throw Malformed{};
    text = "{}";
  }
  const auto json = compact_json(text, JsonRules::tolerant);
  if (!json || json->front() != '{') throw Malformed{};
  sink.write(*json);
}

Reading read_name(CallContext& context, CallObject& object) {
  if (object.has_name) throw Malformed{};
  object.has_name = true;
  co_await context.in.peek_visible();
  co_await read_json_string(context.in, kMostNameBytes, object.name);
  context.calls.begin(object.name, object.id);
  if (!object.early.empty()) context.calls.write(std::exchange(object.early, {}));
}

Reading read_members(CallContext& context, CallObject& object, bool is_certain, bool is_inner);

Reading read_member(CallContext& context, CallObject& object, const std::string& key, bool is_certain,
                    bool is_inner) {
  NoSink nowhere;
  const int c = co_await context.in.peek_visible();
  if (key == "name") {
    co_await read_name(context, object);
  } else if (key == "arguments" || key == "parameters") {
    co_await read_arguments(context, object);
  } else if (key == "function" && c == '{' && !is_inner) {
    co_await read_members(context, object, is_certain, true);
  } else if (key == "id" && c == '"') {
    co_await read_json_string(context.in, kMostNameBytes, object.id);
  } else if (is_certain || (key == "type" && c == '"')) {
    co_await copy_json(context.in, nowhere);
  } else {
    throw Malformed{};
  }
}

Reading read_members(CallContext& context, CallObject& object, bool is_certain, bool is_inner) {
  Source& in = context.in;
  co_await expect(in, "{");
  for (;;) {
    int c = co_await in.peek_visible();
    if (c == '}') break;
    std::string key;
    co_await read_json_string(in, kMostNameBytes, key);
    co_await expect_visible(in, ":");
    co_await read_member(context, object, key, is_certain, is_inner);
    c = co_await in.peek_visible();
    if (c != ',' && c != '}') throw Malformed{};
    if (c == ',') co_await in.next();
  }
  co_await in.next();
}

Reading read_tagged(CallContext& context) {
  Source& in = context.in;
  for (bool is_first = true;; is_first = false) {
    const int c = co_await in.peek_visible();
    if (c == '{') {
      if (context.calls.is_open()) context.calls.end();
      co_await read_json_call(context, true);
    } else if (c == '[' && is_first) {
      co_await read_json_calls(context);
    } else if (is_first) {
      throw Malformed{};
    } else {
      if (c != Source::kEnd) co_await expect(in, "</tool_call>");
      if (context.calls.is_open()) context.calls.end();
      co_return;
    }
  }
}

bool is_hermes(std::string_view source) { return contains(source, "<tool_call>"); }
bool is_smollm(std::string_view source) { return contains(source, "SmolLM"); }

}  // namespace

Reading read_json_call(CallContext& context, bool is_certain) {
  CallObject object;
  co_await read_members(context, object, is_certain, false);
  if (!object.has_name || !(object.has_arguments || is_certain)) throw Malformed{};
}

Reading read_json_calls(CallContext& context) {
  Source& in = context.in;
  co_await expect(in, "[");
  for (bool is_first = true;; is_first = false) {
    int c = co_await in.peek_visible();
    if (c == ']' && !is_first) break;  // a list of no calls is no call: text
    if (c != '{') throw Malformed{};
    co_await read_json_call(context, true);
    c = co_await in.peek_visible();
    if (c != ',' && c != ']') throw Malformed{};
    context.calls.end();
    if (c == ',') co_await in.next();
  }
  co_await in.next();
}

const Family kHermes{.name = "hermes",
                     .recognises = is_hermes,
                     .openers = {{"<tool_call>", read_tagged}},
                     .special_tokens = {"<tool_call>", "</tool_call>"}};

const Family kSmolLm{.name = "smollm",
                     .recognises = is_smollm,
                     .openers = {{"<tool_call>", read_tagged}},
                     .special_tokens = {"<tool_call>", "</tool_call>"}};

}  // namespace rafter::text::output

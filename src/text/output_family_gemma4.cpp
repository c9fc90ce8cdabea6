// Gemma 4: <|tool_call>call:NAME{key:value,…}<tool_call|>, several calls between one pair of tags allowed.
// Strings stand between <|"|> marks, keys are bare or marked; other values are JSON's, or Python's None, True
// and False. A bare word that is none of these is a string, and so is any bare word where the schema wants a
// string.
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

constexpr std::string_view kMark = "<|\"|>";

// The text between two marks, from behind the first one.
Reading copy_marked(Source& in, TextSink& out) {
  std::string held;  // the beginning of the closing mark
  while (held != kMark) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    held += static_cast<char>(c);
    size_t text = 0;
    while (!kMark.starts_with(std::string_view(held).substr(text))) ++text;
    if (text == 0) continue;
    std::string escaped;
    for (size_t i = 0; i < text; ++i) append_json_escaped(escaped, held[i]);
    out.write(escaped);
    held.erase(0, text);
  }
}

Reading copy_marked_string(Source& in, TextSink& out) {
  co_await expect(in, kMark);
  out.write("\"");
  co_await copy_marked(in, out);
  out.write("\"");
}

Reading copy_word(Source& in, TextSink& out, const ArgumentSchema& schema) {
  std::string word;
  co_await take_word(in, ",{}[]<", Source::kMostRecorded, word);
  while (!word.empty() && is_space(word.back())) word.pop_back();
  if (word.empty()) throw Malformed{};
  const bool is_text = is_certainly_string(schema.types);
  if (!is_text && (word == "None" || word == "True" || word == "False")) {
    out.write(word == "None" ? "null" : word == "True" ? "true" : "false");
  } else {
    out.write(argument_json(word, schema.types));
  }
}

// A member's key up to behind its colon, written as JSON.
Reading copy_key(Source& in, TextSink& out, std::string& key) {
  const int c = co_await in.peek_visible();
  key.clear();
  if (c == '<') {
    StringSink text(6 * kMostNameBytes);
    co_await copy_marked_string(in, text);
    out.write(text.text);
    key = text.text.substr(1, text.text.size() - 2);
  } else if (c == '"') {
    co_await read_json_string(in, kMostNameBytes, key);
    out.write(json_quoted(key));
  } else {
    co_await take_word(in, ":,{}[]<>", kMostNameBytes, key);
    while (!key.empty() && is_space(key.back())) key.pop_back();
    if (key.empty()) throw Malformed{};
    out.write(json_quoted(key));
  }
  co_await expect_visible(in, ":");
  out.write(":");
}

// An object or an array that is open, and what its parts are declared as.
struct Level {
  char closer;
  const ArgumentSchema* schema;
};

// An object from its brace, with everything in it.
Reading copy_object(Source& in, TextSink& out, const ArgumentSchema& root) {
  std::vector<Level> levels;
  const ArgumentSchema* schema = &root;  // of the value that comes
  bool comma = false;
  for (;;) {
    int c = co_await in.peek_visible();
    if (!levels.empty() && c == levels.back().closer) {
      co_await in.next();
      out.write({&levels.back().closer, 1});
      levels.pop_back();
      comma = false;
    } else {
      if (comma) out.write(",");
      comma = false;
      if (!levels.empty() && levels.back().closer == '}') {
        std::string key;
        co_await copy_key(in, out, key);
        schema = &levels.back().schema->property(key);
        c = co_await in.peek_visible();
      } else if (!levels.empty()) {
        schema = &levels.back().schema->item();
      }
      if (c == '{' || c == '[') {
        if (levels.size() == kMaxJsonNesting) throw Malformed{};
        co_await in.next();
        out.write(c == '{' ? "{" : "[");
        levels.push_back({c == '{' ? '}' : ']', schema});
        continue;
      }
      if (c == '<') {
        co_await copy_marked_string(in, out);
      } else if (c == '"') {
        co_await copy_json(in, out);
      } else {
        co_await copy_word(in, out, *schema);
      }
    }
    if (levels.empty()) co_return;
    c = co_await in.peek_visible();
    if (c == ',') {
      co_await in.next();
      comma = true;
    } else if (c != levels.back().closer) {
      throw Malformed{};
    }
  }
}

Reading read_call(CallContext& context) {
  Source& in = context.in;
  std::string name;
  co_await expect_visible(in, "call:");
  co_await take_word(in, "{}[]<>,\"\n ", kMostNameBytes, name);
  const int c = co_await in.peek();
  if (c != '{') throw Malformed{};
  context.calls.begin(name);
  const ArgumentSchema anything;
  const ArgumentSchema* schema = context.calls.schema() ? context.calls.schema() : &anything;
  co_await copy_object(in, context.calls, *schema);
}

// From behind <|tool_call> to behind <tool_call|>.
Reading read_calls(CallContext& context) {
  Source& in = context.in;
  for (;;) {
    co_await read_call(context);
    int c = co_await in.peek_visible();
    if (c == ',' || c == ';') {
      co_await in.next();
      c = co_await in.peek_visible();
    }
    if (c != 'c') {
      if (c != Source::kEnd) co_await expect(in, "<tool_call|>");
      break;
    }
    context.calls.end();
  }
  context.calls.end();
}

bool recognises(std::string_view source) {
  return contains(source, "<|tool_call>") && contains(source, "<tool_call|>");
}

}  // namespace

const Family kGemma4{.name = "gemma4",
                     .recognises = recognises,
                     .openers = {{"<|tool_call>", read_calls}},
                     .special_tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>"}};

}  // namespace rafter::text::output

// Qwen3.5 and Qwen3-Coder:
// <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>. Values are
// plain text, typed by the function's schema; one line break at each end belongs to the tags, everything
// between is the value to the byte. A value may hold </parameter>: it ends where, behind at most kMostSpace
// of white space, another parameter or the function's end follows.
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

constexpr std::string_view kValueEnd = "</parameter>",
                           kNextParameter = "<parameter=", kFunctionEnd = "</function>";
constexpr size_t kMostSpace = 64;

// What the end of a value's text may be.
enum class Tail {
  text,  // no beginning of the value's end
  open,  // the beginning of it
  parameter,
  function,
};

Tail tail_of(std::string_view tail) {
  if (tail.starts_with('\n')) tail.remove_prefix(1);
  if (kValueEnd.starts_with(tail)) return Tail::open;
  if (!tail.starts_with(kValueEnd)) return Tail::text;
  tail.remove_prefix(kValueEnd.size());
  size_t space = 0;
  while (space < tail.size() && is_space(tail[space])) ++space;
  if (space > kMostSpace) return Tail::text;
  tail.remove_prefix(space);
  if (tail == kNextParameter) return Tail::parameter;
  if (tail == kFunctionEnd) return Tail::function;
  return kNextParameter.starts_with(tail) || kFunctionEnd.starts_with(tail) ? Tail::open : Tail::text;
}

// Reads a value and its end; `end` says which of the two it was.
Reading read_value(Source& in, TextValue& value, Tail& end) {
  std::string tail;
  end = Tail::open;
  const int first = co_await in.peek();
  if (first == '\n') co_await in.next();
  while (end != Tail::parameter && end != Tail::function) {
    const int c = co_await in.next();
    if (c == Source::kEnd) throw Malformed{};
    tail += static_cast<char>(c);
    size_t text = 0;
    while (text < tail.size() && (end = tail_of(std::string_view(tail).substr(text))) == Tail::text) ++text;
    value.write(std::string_view(tail).substr(0, text));
    tail.erase(0, text);
  }
}

Reading read_call(CallContext& context) {
  Source& in = context.in;
  std::string name;
  co_await expect_visible(in, "<function=");
  co_await take_word(in, ">", kMostNameBytes, name);
  co_await in.next();
  context.calls.begin(name);
  const ArgumentSchema anything;
  const ArgumentSchema* schema = context.calls.schema() ? context.calls.schema() : &anything;
  std::optional<MemberWriter> members;
  int c = co_await in.peek_visible();
  co_await expect(in, "<");
  c = co_await in.peek();
  Tail next = c == 'p' ? Tail::parameter : Tail::function;
  co_await expect(in, (next == Tail::parameter ? kNextParameter : kFunctionEnd).substr(1));
  while (next == Tail::parameter) {
    std::string key;
    co_await take_word(in, ">", kMostNameBytes, key);
    co_await in.next();
    if (!members) members.emplace(context.calls);
    members->key(key);
    TextValue value(context.calls, schema->property(key));
    co_await read_value(in, value, next);
    value.close();
  }
  if (members) members->close();
}

// From behind <tool_call> to behind </tool_call>.
Reading read_tagged(CallContext& context) {
  co_await read_call(context);
  const int c = co_await context.in.peek_visible();
  if (c != Source::kEnd) co_await expect(context.in, "</tool_call>");
  context.calls.end();
}

bool recognises(std::string_view source) {
  return contains(source, "<tool_call>\\n<function=") || contains(source, "<tool_call>\n<function=");
}

}  // namespace

const Family kQwen35{.name = "qwen3.5",
                     .recognises = recognises,
                     .openers = {{"<tool_call>", read_tagged}},
                     .special_tokens = {"<tool_call>", "</tool_call>"}};

}  // namespace rafter::text::output

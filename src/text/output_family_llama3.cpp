// Llama 3.1 to 3.3. Calls are the whole answer: {"name": …, "parameters": {…}}, several separated by `;`,
// bare or behind <|python_tag|>, where the built-in tools are called as NAME.call(key="value", …). Anything
// else behind that tag is code, and code is text.
#include "text/output_family.h"
#include "text/output_python.h"

namespace rafter::text::output {
namespace {

Reading read_objects(CallContext& context) {
  Source& in = context.in;
  for (;;) {
    co_await read_json_call(context, false);
    int c = co_await in.peek_visible();
    if (c != ';' && c != Source::kEnd) throw Malformed{};
    context.calls.end();
    if (c == Source::kEnd) co_return;
    co_await in.next();
    c = co_await in.peek_visible();
    if (c == Source::kEnd) co_return;
  }
}

Reading read_python_call(CallContext& context) {
  Source& in = context.in;
  std::string name, key;
  co_await take_word(in, ". (\n", kMostNameBytes, name);
  co_await expect(in, ".call(");
  context.calls.begin(name);
  MemberWriter members(context.calls);
  int c = co_await in.peek_visible();
  while (c != ')') {
    co_await take_word(in, "=,() \n\"'", kMostNameBytes, key);
    if (key.empty()) throw Malformed{};
    co_await expect_visible(in, "=");
    members.key(key);
    co_await copy_python(in, context.calls);
    c = co_await in.peek_visible();
    if (c != ',' && c != ')') throw Malformed{};
    if (c == ',') co_await in.next();
    c = co_await in.peek_visible();
  }
  co_await in.next();
  members.close();
  c = co_await in.peek_visible();
  if (c != Source::kEnd) throw Malformed{};
  context.calls.end();
}

Reading read_behind_python_tag(CallContext& context) {
  const int c = co_await context.in.peek_visible();
  if (c == '{') {
    co_await read_objects(context);
  } else {
    co_await read_python_call(context);
  }
}

bool recognises(std::string_view source) {
  return contains(source, "<|python_tag|>") ||
         (contains(source, "<|start_header_id|>") && contains(source, "\"parameters\""));
}

}  // namespace

const Family kLlama3{.name = "llama3",
                     .recognises = recognises,
                     .openers = {{"<|python_tag|>", read_behind_python_tag}},
                     .read_bare = read_objects,
                     .special_tokens = {"<|python_tag|>"}};

}  // namespace rafter::text::output

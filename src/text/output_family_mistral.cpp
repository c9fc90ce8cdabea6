// Mistral. New: [TOOL_CALLS]NAME[ARGS]{json} per call, with [CALL_ID]ID between them since Small 3.2. Old:
// [TOOL_CALLS][{"name": …, "arguments": …, "id": …}, …]. A call ends where its JSON does.
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

Reading read_named_call(CallContext& context) {
  Source& in = context.in;
  std::string name, id;
  co_await in.peek_visible();
  co_await take_word(in, "[]{}<>\n", kMostNameBytes, name);
  while (!name.empty() && is_space(name.back())) name.pop_back();
  int c = co_await in.peek();
  if (c == '[') {
    co_await in.next();
    c = co_await in.peek();
    if (c == 'C') {
      co_await expect(in, "CALL_ID]");
      co_await take_word(in, "[]{}<>\n", kMostNameBytes, id);
      co_await expect(in, "[");
    }
    co_await expect(in, "ARGS]");
  }
  c = co_await in.peek_visible();
  if (c != '{') throw Malformed{};
  context.calls.begin(name, id);
  co_await copy_json(in, context.calls);
  context.calls.end();
}

Reading read_calls(CallContext& context) {
  const int c = co_await context.in.peek_visible();
  if (c == '[') {
    co_await read_json_calls(context);
  } else if (c == '{') {
    co_await read_json_call(context, true);
    context.calls.end();
  } else {
    co_await read_named_call(context);
  }
}

bool recognises(std::string_view source) { return contains(source, "[TOOL_CALLS]"); }

}  // namespace

const Family kMistral{.name = "mistral",
                      .recognises = recognises,
                      .openers = {{"[TOOL_CALLS]", read_calls}},
                      .special_tokens = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
                      .ids = IdStyle::nine_alphanumeric};

}  // namespace rafter::text::output

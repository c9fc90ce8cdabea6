// DeepSeek. Between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>, per call: since V3.1
// <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{json}<｜tool▁call▁end｜>; V3 and R1
// <｜tool▁call▁begin｜>TYPE<｜tool▁sep｜>NAME\n```json\n{json}\n```<｜tool▁call▁end｜>.
#include "text/output_family.h"

namespace rafter::text::output {
namespace {

// What the markers of a call's beginning and of the calls' end have in common, and their rests.
constexpr std::string_view kCommon = "<｜tool▁call", kCallBegins = "▁begin｜>", kCallsEnd = "s▁end｜>";

// A call from behind <｜tool▁call▁begin｜>.
Reading read_call(CallContext& context) {
  Source& in = context.in;
  std::string name;
  co_await take_word(in, "<\n", kMostNameBytes, name);
  co_await expect(in, "<｜tool▁sep｜>");
  int c = co_await in.peek_visible();
  const bool is_fenced = c != '{';
  if (is_fenced) {
    co_await take_word(in, "\n`<{", kMostNameBytes, name);
    co_await expect_visible(in, "```json");
    co_await in.peek_visible();
  }
  while (!name.empty() && is_space(name.back())) name.pop_back();
  context.calls.begin(name);
  c = co_await in.peek_visible();
  if (c != '{') throw Malformed{};
  co_await copy_json(in, context.calls);
  if (is_fenced) co_await expect_visible(in, "```");
  co_await expect_visible(in, "<｜tool▁call▁end｜>");
  context.calls.end();
}

// From behind <｜tool▁calls▁begin｜> to behind <｜tool▁calls▁end｜>, or to the end of the text.
Reading read_calls(CallContext& context) {
  Source& in = context.in;
  for (bool is_first = true;; is_first = false) {
    int c = co_await in.peek_visible();
    if (c == Source::kEnd && !is_first) co_return;
    co_await expect(in, kCommon);
    c = co_await in.peek();
    if (c == 's' && !is_first) break;
    co_await expect(in, kCallBegins);
    co_await read_call(context);
  }
  co_await expect(in, kCallsEnd);
}

bool recognises(std::string_view source) { return contains(source, "<｜tool▁calls▁begin｜>"); }

}  // namespace

const Family kDeepSeek{.name = "deepseek",
                       .recognises = recognises,
                       .openers = {{"<｜tool▁calls▁begin｜>", read_calls}},
                       .special_tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                          "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}};

}  // namespace rafter::text::output

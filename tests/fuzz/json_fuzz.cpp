// Any text as JSON, for the three readers there are: strict JSON of files, a request's variables, and the
// compact JSON of arguments. What one takes the others take where their rules agree, and none takes what a
// common parser refuses.
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "format/strict_json.h"
#include "tests/fuzz/seeds.h"
#include "tests/support/json_text.h"
#include "text/chat_template.h"
#include "text/output_json.h"
#include "text/output_python.h"
#include "text/output_schema.h"

namespace {

class Counter : public rafter::format::JsonVisitor {
 public:
  rafter::base::Status value(std::span<const std::string> path,
                             const rafter::format::JsonEvent& event) override {
    deepest_ = std::max(deepest_, path.size());
    events_ += event.kind != rafter::format::JsonKind::null;
    return {};
  }
  size_t deepest() const { return deepest_; }

 private:
  size_t deepest_ = 0, events_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr size_t kDepth = 16;
  Counter counter;
  const base::Status strict = format::parse_strict_json(text, kDepth, "fuzz", counter);
  const bool is_json = testing::is_json_text(text);
  RAFTER_CHECK(!strict.ok() || is_json);
  RAFTER_CHECK(counter.deepest() <= kDepth);
  const auto value = text::parse_json_value(text);
  RAFTER_CHECK(!value.ok() || is_json);
  RAFTER_CHECK(!strict.ok() || value.ok());

  using namespace text::output;
  const auto compact = compact_json(text, JsonRules::strict);
  if (compact && base::is_valid_utf8(text)) {
    RAFTER_CHECK(compact_json(*compact, JsonRules::strict) == compact);
    RAFTER_CHECK(testing::is_json_text(*compact));
  }
  RAFTER_CHECK(!strict.ok() || compact.has_value());
  for (const auto& mended : {compact_json(text, JsonRules::tolerant), json_of_python(text)}) {
    if (mended && base::is_valid_utf8(text)) RAFTER_CHECK(testing::is_json_text(*mended), "{}", *mended);
  }
  const auto tools = text::ToolSchemas::from_json(text);
  RAFTER_CHECK(tools.ok() || !tools.error().what.empty());
  if (base::is_valid_utf8(text) && size > 0) {
    const std::string argument = text::argument_json(text.substr(1), data[0] & 0x7F);
    if (base::is_valid_utf8(text.substr(1))) RAFTER_CHECK(testing::is_json_text(argument), "{}", argument);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"a": [1, 2.5e-3, true, null, "\u00e9\ud83d\ude00\n"], "b": {"c": {}}})",
      "[{'a': None, 'b': (1, True), \"c\": 'x\\x41'},]",
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a":
             {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"enum": [1, "x"]}]}}}}}])",
      " 12",
      "x1.0",
      "\x04True",
      "\x40{'a': 1}"};
}

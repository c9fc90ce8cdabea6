// What a family of call markup consists of: one file text/output_family_*.cpp defines each,
// text/output_families.cpp lists them. For implementation files of text/output_*.cpp only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_calls.h"
#include "text/output_parser.h"
#include "text/output_reading.h"

namespace rafter::text::output {

// What a family's reading works with. A call is begun, given arguments and ended through `calls`; text that
// is no call is Malformed, and what was taken since the last call ended becomes content.
struct CallContext {
  Source& in;
  CallWriter& calls;
};

struct Opener {
  std::string_view text;
  // Reads what follows the opener, up to where content goes on.
  Reading (*read)(CallContext& context);
};

struct Family {
  const char* name;
  // Whether a chat template (its source) belongs to the family. Null: only by name.
  bool (*recognises)(std::string_view template_source);
  std::vector<Opener> openers;  // none begins another
  // A `{` that is the first visible character of the answer is an opener: what follows is read by this, with
  // the brace not yet taken. Null: it is text.
  Reading (*read_bare)(CallContext& context) = nullptr;
  std::vector<std::string> special_tokens = {};  // of the markup, that decoders drop
  IdStyle ids = IdStyle::call_and_hex;
};

// Tags around reasoning.
struct ReasoningTags {
  const char* name;
  bool (*recognises)(std::string_view template_source);
  std::string_view open, close;
  // What follows the opening tag and is no reasoning: a line that names the channel, or a line break. Left
  // out of the text even if only its last byte, a line break, is missing and the block ends.
  std::string_view heading;
  size_t newlines_after;  // line breaks behind the closing tag that are no content
  bool are_special_tokens;
};

extern const Family kGemma4, kQwen35, kHermes, kSmolLm, kMiniCpm5, kLlama3, kMistral, kDeepSeek, kNoFamily;

// In the order in which templates are tried; the first that recognises one has it.
std::span<const Family* const> families();
std::span<const ReasoningTags> reasoning_tags();

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// {"name": …, "arguments": {…}}, the brace not yet taken, as one call that is begun but not ended. Also
// "parameters" for "arguments", an "id" in front of them, arguments as a string that holds JSON, null or none
// for no arguments, and all of this as the value of "function". `is_certain`: members of other names are
// skipped; otherwise they are Malformed, and so is an object without arguments.
Reading read_json_call(CallContext& context, bool is_certain);
// An array of such objects, at least one, each an ended call.
Reading read_json_calls(CallContext& context);

}  // namespace rafter::text::output

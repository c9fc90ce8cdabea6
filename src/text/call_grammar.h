// Answers that are calls, as a language that tokens are held to: the markup of each family around arguments
// that obey the functions' schemas. What it takes the family's parser (text/output_parser.h) reads as calls,
// byte for byte.
//
//   RAFTER_ASSIGN(auto calls, compile_calls(format, {.tools_json = tools}, index));   // as a schema is used
//
// `index` must have the format's kept_markers as markers. Values that are not JSON are written as the family
// writes them: bare text where a string is declared (Qwen3.5, MiniCPM5), marked strings (Gemma 4). There,
// additional members have names of letters, digits and _.
#pragma once

#include <string>
#include <string_view>

#include "text/compiled_schema.h"
#include "text/output_parser.h"

namespace rafter::text {

struct CallLanguage {
  // The functions that may be called, as ToolSchemas reads them. One with "strict": true is held to its
  // schema or refused; of others a schema that cannot be held leaves any object.
  std::string tools_json;
  bool several = true;  // more than one call; in one opened group where the family has groups
  // From behind an opener (call_openers) to the end of its group, not from the beginning of the answer.
  bool behind_opener = false;
  // Of a family with two kinds of markup the one that a template speaks (uses_older_calls).
  bool older = false;
};

// Errors: invalid_argument (the schemas are none, or nothing satisfies one), unsupported (a strict schema
// that cannot be held, with its function and place; a name that calls cannot be forced by; a family without
// calls).
base::Result<std::shared_ptr<const CompiledSchema>> compile_calls(const OutputFormat& format,
                                                                  const CallLanguage& language,
                                                                  const TokenIndex& index);

// Whether a template writes calls in its family's older markup (Mistral without [ARGS], DeepSeek V3 and R1).
bool uses_older_calls(const OutputFormat& format, std::string_view template_source);

// Where in an answer's text calls begin. `at_start`: only as the answer's first visible text, and the text
// itself belongs to the calls.
struct CallOpener {
  std::string text;
  bool at_start = false;
};
std::vector<CallOpener> call_openers(const OutputFormat& format);

}  // namespace rafter::text

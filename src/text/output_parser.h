// OutputParser: a model's raw text, as it is generated, becomes reasoning, content and tool calls.
//
//   RAFTER_ASSIGN(const OutputFormat format, choose_output_format(template_source));          // once per
//   model OutputParserOptions options;                                                              // once
//   per request RAFTER_ASSIGN(options.tools, ToolSchemas::from_json(request_tools_json)); options.parse_calls
//   = !options.tools.empty(); options.start = output_start(format, rendered_prompt); options.id_seed =
//   random(); OutputParser parser(format, options); for (each piece of text) for (OutputEvent& event :
//   parser.push(piece)) send(event); for (OutputEvent& event : parser.finish()) send(event);
//
// The text must still hold the markers (kept_markers), which a decoder that skips special tokens would drop;
// the token that ended the answer is not part of it.
//
// However the text is cut, the events are the same once adjacent deltas of one kind are joined. Time is
// linear. Held back is only what may be the beginning of a marker, white space around calls, and values whose
// type their end decides; what a call was written with is kept until it ends (16 MiB at most), to give it
// back if it is none. Deltas end on whole characters if the pieces do; malformed UTF-8 becomes U+FFFD first.
//
// Nothing is lost and nothing invented: text that is not a complete, well-formed call of an offered function
// comes out as content, byte for byte, and what follows it is read as usual. Dropped as markup are the tags
// themselves, the line breaks that templates put around reasoning, white space between calls, and, if the
// answer begins with a call, white space in front of it.
//
// How a caller writes an OpenAI stream:           and an Anthropic one:
//   reasoning       delta.reasoning                 thinking block: thinking_delta
//   content         delta.content                   text block: text_delta
//   call_start      delta.tool_calls[index]         content_block_start, tool_use with id and name
//                   {index, id, type, function:     (blocks are opened when the kind of event changes, and
//                   {name, arguments: ""}}          numbered by the caller)
//   call_arguments  function.arguments              input_json_delta
//   call_end        nothing                         content_block_stop
//   call_void       see CallDelivery                see CallDelivery
// The finish reason is tool_calls / tool_use if called() says so, else the generation's own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/output_schema.h"

namespace rafter::text {

struct OutputEvent {
  enum class Kind {
    reasoning,       // text: a piece of what the model thinks
    content,         // text: a piece of the answer
    call_start,      // index, id, name
    call_arguments,  // index; text: a piece of JSON. The pieces of a call that ends are one compact object.
    call_end,        // index: the call is complete
    call_void,       // index: a call that was started is none; its markup follows as content
  };
  Kind kind = Kind::content;
  std::string text = {};
  size_t index = 0;  // of the call in this answer, from 0
  std::string id = {};
  std::string name = {};

  bool operator==(const OutputEvent&) const = default;
};

// What is sent of a call before its end is known.
enum class CallDelivery {
  whole,         // nothing: start, arguments and end come together. No call_void ever.
  as_they_come,  // start and arguments at once. Broken markup behind them is a call_void, which a protocol
                 // that cannot take back what it sent must report as it can; then the markup as content.
};

namespace output {
struct Family;
struct ReasoningTags;
}  // namespace output

// How a model marks reasoning and calls. Cheap to copy.
struct OutputFormat {
  const output::Family* family;            // never null
  const output::ReasoningTags* reasoning;  // null: the model does not mark it

  const char* family_name() const;
  const char* reasoning_name() const;
};

// The format that a chat template (its Jinja source) speaks; by the template's own markers, in the order of
// the table in text/output_families.cpp. `family` and `reasoning` override it by name: a name of
// output_family_names() or of reasoning_names(), "none", or "auto". Errors: invalid_argument, with the names
// there are.
base::Result<OutputFormat> choose_output_format(std::string_view template_source,
                                                std::string_view family = "auto",
                                                std::string_view reasoning = "auto");
std::vector<std::string> output_family_names();
std::vector<std::string> reasoning_names();

// The special tokens, by text, that have to reach the parser as text.
std::vector<std::string> kept_markers(const OutputFormat& format);

// Where the answer begins: a prompt may end inside reasoning that it opened itself, with the opening tag and
// nothing but its heading or white space behind it.
enum class OutputStart {
  content,
  reasoning_opened,  // directly behind the opening tag
  reasoning,         // further inside
};
OutputStart output_start(const OutputFormat& format, std::string_view rendered_prompt);

struct OutputParserOptions {
  // What may be called. A call of anything else is text; with no tools declared, any name may be called.
  ToolSchemas tools;
  // False: calls are not looked for, as for a request without tools.
  bool parse_calls = true;
  OutputStart start = OutputStart::content;
  CallDelivery delivery = CallDelivery::as_they_come;
  // Call ids are made of this and the call's index, unless the model gives its own in front of the arguments.
  uint64_t id_seed = 0;
};

class OutputParser {
 public:
  OutputParser(const OutputFormat& format, OutputParserOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // What the next piece of text makes known; adjacent deltas of one kind are joined.
  std::vector<OutputEvent> push(std::string_view text);
  // The end of the text: all that was held. A call whose closing tag alone is missing counts. To be called
  // once.
  std::vector<OutputEvent> finish();

  // Whether a call was completed.
  bool called() const;
  // Whether the text is inside reasoning now, for a reasoning budget: what would end it is reasoning_close().
  bool is_reasoning() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The tags around reasoning; empty if the format has none.
std::string_view reasoning_open(const OutputFormat& format);
std::string_view reasoning_close(const OutputFormat& format);
// What a model writes where its reasoning ends: the tag and the line breaks around it.
std::string reasoning_ending(const OutputFormat& format);

}  // namespace rafter::text

// Running the output parsers over text that is cut in any way, and their events as lines that tests compare.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/output_parser.h"

namespace rafter::testing {

inline constexpr const char* kTestTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "units": {"type": ["string", "null"]},
    "exact": {"type": "boolean"}, "share": {"type": "number"}, "any": {}}}}},
  {"type": "function", "function": {"name": "place_order", "parameters": {"type": "object", "properties": {
    "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"},
    "price": {"type": "number"}}}}, "gift": {"type": "boolean"}, "note": {"type": ["string", "null"]},
    "to": {"type": "object", "properties": {"name": {"type": "string"}}}}}}},
  {"name": "write-file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"},
    "text": {"type": "string"}}}}])";

inline text::OutputFormat output_format(const std::string& family, const std::string& reasoning = "none") {
  return *text::choose_output_format("", family, reasoning);
}

inline text::OutputParserOptions output_options(const char* tools = kTestTools) {
  text::OutputParserOptions options;
  options.tools = *text::ToolSchemas::from_json(tools);
  options.id_seed = 7;
  return options;
}

// Adjacent deltas of one kind as one event.
inline void join_events(std::vector<text::OutputEvent>& joined, std::vector<text::OutputEvent> events) {
  for (text::OutputEvent& event : events) {
    const bool is_delta = !event.text.empty();
    if (is_delta && !joined.empty() && joined.back().kind == event.kind &&
        joined.back().index == event.index) {
      joined.back().text += event.text;
    } else {
      joined.push_back(std::move(event));
    }
  }
}

// `cut` says how long the next piece is.
template <typename Cut>
std::vector<text::OutputEvent> parse_cut(const text::OutputFormat& format,
                                         const text::OutputParserOptions& options, const std::string& input,
                                         const Cut& cut) {
  text::OutputParser parser(format, options);
  std::vector<text::OutputEvent> events;
  for (size_t at = 0; at < input.size();) {
    const size_t size = std::min(input.size() - at, std::max<size_t>(1, cut()));
    join_events(events, parser.push(std::string_view(input).substr(at, size)));
    at += size;
  }
  join_events(events, parser.finish());
  return events;
}

inline std::vector<text::OutputEvent> parse_whole(const text::OutputFormat& format,
                                                  const text::OutputParserOptions& options,
                                                  const std::string& input) {
  return parse_cut(format, options, input, [&] { return input.size(); });
}

// "reasoning: …", "content: …", "call 0: name", "arguments 0: …", "end 0", "void 0".
inline std::vector<std::string> lines_of(const std::vector<text::OutputEvent>& events) {
  using Kind = text::OutputEvent::Kind;
  std::vector<std::string> lines;
  for (const text::OutputEvent& event : events) {
    const std::string index = std::to_string(event.index);
    switch (event.kind) {
      case Kind::reasoning:
        lines.push_back("reasoning: " + event.text);
        break;
      case Kind::content:
        lines.push_back("content: " + event.text);
        break;
      case Kind::call_start:
        lines.push_back("call " + index + ": " + event.name);
        break;
      case Kind::call_arguments:
        lines.push_back("arguments " + index + ": " + event.text);
        break;
      case Kind::call_end:
        lines.push_back("end " + index);
        break;
      case Kind::call_void:
        lines.push_back("void " + index);
        break;
    }
  }
  return lines;
}

// What a caller that does not stream makes of the events.
struct Answer {
  struct Call {
    std::string name, arguments, id;
    bool operator==(const Call&) const = default;
  };
  std::string reasoning, content;
  std::vector<Call> calls;
  bool operator==(const Answer&) const = default;
};

inline Answer answer_of(const std::vector<text::OutputEvent>& events) {
  using Kind = text::OutputEvent::Kind;
  Answer answer;
  Answer::Call open;
  for (const text::OutputEvent& event : events) {
    if (event.kind == Kind::reasoning) answer.reasoning += event.text;
    if (event.kind == Kind::content) answer.content += event.text;
    if (event.kind == Kind::call_start) open = {event.name, "", event.id};
    if (event.kind == Kind::call_arguments) open.arguments += event.text;
    if (event.kind == Kind::call_end) answer.calls.push_back(open);
  }
  return answer;
}

}  // namespace rafter::testing

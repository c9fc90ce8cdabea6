// What holds for the parser of every family, over random answers. A parser is given as a function so that
// tests can plant faults in it.
#pragma once

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "tests/support/json_text.h"
#include "tests/support/output_documents.h"
#include "tests/support/output_events.h"

namespace rafter::testing {

// The pieces of an answer to its events, joined.
using PiecesToEvents = std::function<std::vector<text::OutputEvent>(
    const text::OutputFormat&, const text::OutputParserOptions&, const std::vector<std::string>&)>;

inline std::vector<text::OutputEvent> events_of_pieces(const text::OutputFormat& format,
                                                       const text::OutputParserOptions& options,
                                                       const std::vector<std::string>& pieces) {
  text::OutputParser parser(format, options);
  std::vector<text::OutputEvent> events;
  for (const std::string& piece : pieces) join_events(events, parser.push(piece));
  join_events(events, parser.finish());
  return events;
}

inline std::vector<std::string> random_pieces(const std::string& text, std::mt19937& random) {
  const size_t longest = size_t{1} << (random() % 7);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
    pieces.push_back(text.substr(at, random() % 16 == 0 ? 0 : 1 + random() % longest));
  }
  return pieces;
}

// An empty string, or what is wrong with events whatever the text was.
inline std::string fault_of_shape(const std::vector<text::OutputEvent>& events) {
  using Kind = text::OutputEvent::Kind;
  bool is_open = false;
  size_t next = 0;
  std::string arguments;
  for (const text::OutputEvent& event : events) {
    const bool is_delta =
        event.kind == Kind::reasoning || event.kind == Kind::content || event.kind == Kind::call_arguments;
    if (is_delta == event.text.empty()) return "a delta is empty, or another event has text";
    if (event.kind == Kind::call_start) {
      if (is_open || event.index != next++) return "calls overlap or are numbered out of order";
      if (event.id.empty() || event.name.empty()) return "a call without a name or an id";
      is_open = true, arguments.clear();
    } else if (event.kind == Kind::reasoning || event.kind == Kind::content) {
      if (is_open) return "text inside a call";
    } else {
      if (!is_open || event.index + 1 != next) return "an event of a call that is not open";
      arguments += event.text;
      if (event.kind == Kind::call_arguments) continue;
      is_open = false;
      if (event.kind == Kind::call_end && !(arguments.starts_with('{') && is_json_text(arguments)))
        return "arguments are no JSON object: " + arguments;
    }
  }
  return is_open ? "a call is left open" : "";
}

// Looks for places of the content in the input such that what lies between is white space around calls, or
// where calls came out, markup that begins with an opener.
class Account {
 public:
  Account(const std::vector<text::OutputEvent>& events, const std::string& input,
          const std::vector<std::string>& openers)
      : input_(input), openers_(openers) {
    bool called = false;
    for (const text::OutputEvent& event : events) {
      called = called || event.kind == text::OutputEvent::Kind::call_end;
      if (event.kind != text::OutputEvent::Kind::content) continue;
      pieces_.push_back({event.text, called});
      called = false;
    }
    pieces_.push_back({"", called});  // the end of the input
  }

  bool adds_up(size_t piece = 0, size_t at = 0) const {
    const bool is_last = piece + 1 == pieces_.size();
    if (is_last) return is_markup(at, input_.size(), piece);
    for (size_t place = at; (place = input_.find(pieces_[piece].text, place)) != std::string::npos; ++place) {
      if (is_markup(at, place, piece) && adds_up(piece + 1, place + pieces_[piece].text.size())) return true;
      if (!pieces_[piece].is_behind_call) return false;  // nothing may lie between
    }
    return false;
  }

 private:
  struct Piece {
    std::string text;
    bool is_behind_call;
  };

  bool is_markup(size_t begin, size_t end, size_t piece) const {
    if (!pieces_[piece].is_behind_call) return begin == end;
    while (begin < end && is_space(begin, begin + 1)) ++begin;
    return std::any_of(openers_.begin(), openers_.end(), [&](const std::string& opener) {
      return input_.compare(begin, opener.size(), opener) == 0;
    });
  }
  bool is_space(size_t begin, size_t end) const { return input_.find_first_not_of(" \t\r\n", begin) >= end; }

  const std::string& input_;
  const std::vector<std::string>& openers_;
  std::vector<Piece> pieces_;
};

// Without reasoning: nothing is lost and nothing invented.
inline std::string fault_of_account(const std::vector<text::OutputEvent>& events, const std::string& input,
                                    const std::vector<std::string>& openers) {
  return Account(events, input, openers).adds_up() ? "" : "content is lost or invented";
}

struct PropertyResult {
  size_t answers = 0, calls = 0, broken = 0;
  std::vector<std::string> wrong;
};

// `count` random answers of one family: what was written is read, broken markup is text, and cuts do not
// matter.
inline PropertyResult check_family(const FamilySpelling& spelling, int count, uint32_t seed,
                                   const PiecesToEvents& parse = events_of_pieces) {
  std::mt19937 random(seed);
  const text::OutputParserOptions streaming = output_options();
  text::OutputParserOptions whole = streaming;
  whole.delivery = text::CallDelivery::whole;
  PropertyResult result;
  const auto complain = [&](const std::string& what, const std::string& input) {
    result.wrong.push_back(spelling.family + ": " + what + "\n  in " +
                           Json(input).dump(-1, ' ', true, Json::error_handler_t::replace));
  };
  for (int round = 0; round < count; ++round) {
    const text::OutputFormat format = output_format(spelling.family, round % 2 ? "think" : "none");
    // Text, calls, text; with reasoning in front when it is marked.
    Answer expected;
    std::string input;
    if (round % 2) {
      expected.reasoning = "Thinking" + random_value_text(random) + ".";
      if (expected.reasoning.find("</think>") != std::string::npos) expected.reasoning = "So.";
      input = "<think>\n" + expected.reasoning + "\n</think>\n\n";
    }
    std::vector<RandomCall> calls(1 + random() % 3);
    for (RandomCall& call : calls) call = random_call(random);
    const bool has_text = !spelling.is_whole_answer && random() % 2 == 0;
    if (has_text) input += expected.content = "Well, let me see <to";
    input += spelling.write(calls, random);
    if (has_text) input += "done", expected.content += "done";
    const bool is_broken = random() % 2 == 0;
    if (is_broken) {
      const size_t at = random() % input.size();
      static const std::vector<std::string> kFaults = {"<",           "\"", "}",    "x", "\n",
                                                       "<tool_call>", "{",  "\xFF", "]", "<think>"};
      switch (random() % 4) {
        case 0:
          input.resize(at);
          break;
        case 1:
          input.erase(at, 1 + random() % 3);
          break;
        default:
          input.insert(at, one_of(kFaults, random));
      }
    }
    ++result.answers;
    const auto events = parse(format, streaming, {input});
    const auto at_once = parse(format, whole, {input});
    for (int cut = 0; cut < 2; ++cut) {
      if (parse(format, streaming, random_pieces(input, random)) != events)
        complain("another cut, other events", input);
    }
    if (parse(format, whole, random_pieces(input, random)) != at_once)
      complain("another cut, other whole calls", input);
    for (const auto* list : {&events, &at_once}) {
      if (const std::string fault = fault_of_shape(*list); !fault.empty()) complain(fault, input);
    }
    Answer answer = answer_of(events), whole_answer = answer_of(at_once);
    for (Answer* one : {&answer, &whole_answer}) {
      for (Answer::Call& call : one->calls) call.id.clear();
    }
    if (answer != whole_answer) complain("whole calls differ from streamed ones", input);
    result.calls += answer.calls.size();
    result.broken += answer.calls.size() != calls.size();
    if (is_broken) {
      if (round % 2 || !base::is_valid_utf8(input)) continue;
      const std::string fault = fault_of_account(at_once, input, spelling.openers);
      if (!fault.empty()) complain(fault, input);
      continue;
    }
    if (answer.content != expected.content) complain("content is " + answer.content, input);
    if (answer.reasoning != expected.reasoning) complain("reasoning is " + answer.reasoning, input);
    bool same = answer.calls.size() == calls.size();
    for (size_t i = 0; same && i < calls.size(); ++i) {
      same = answer.calls[i].name == calls[i].name &&
             Json::parse(answer.calls[i].arguments, nullptr, false) == calls[i].arguments;
    }
    if (!same) complain("other calls", input);
  }
  return result;
}

}  // namespace rafter::testing

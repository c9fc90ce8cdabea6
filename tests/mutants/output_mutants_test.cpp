// Planted faults that the checks of the output parsers must catch.
#include <gtest/gtest.h>

#include "tests/support/output_checks.h"

namespace rafter::text {
namespace {

using testing::PiecesToEvents;
using Events = std::vector<OutputEvent>;
using Pieces = std::vector<std::string>;
using Kind = OutputEvent::Kind;

// A parser that is right except for what it is given.
PiecesToEvents reading(const std::function<void(Pieces&)>& fault) {
  return [=](const OutputFormat& format, const OutputParserOptions& options, const Pieces& pieces) {
    Pieces changed = pieces;
    fault(changed);
    return testing::events_of_pieces(format, options, changed);
  };
}

// A parser that is right except for what it says.
PiecesToEvents saying(const std::function<void(Events&)>& fault) {
  return [=](const OutputFormat& format, const OutputParserOptions& options, const Pieces& pieces) {
    Events events = testing::events_of_pieces(format, options, pieces);
    fault(events);
    return events;
  };
}

void erase_kind(Events& events, Kind kind) {
  std::erase_if(events, [&](const OutputEvent& event) { return event.kind == kind; });
}

struct Fault {
  const char* name;
  PiecesToEvents parser;
};

std::vector<Fault> faults() {
  return {
      {"a piece's last byte is lost", reading([](Pieces& pieces) {
         if (pieces.size() > 2 && !pieces[1].empty()) pieces[1].pop_back();
       })},
      {"each piece is parsed as an answer of its own",
       [](const OutputFormat& format, const OutputParserOptions& options, const Pieces& pieces) {
         Events events;
         for (const std::string& piece : pieces)
           testing::join_events(events, testing::events_of_pieces(format, options, {piece}));
         return events;
       }},
      {"content is lost", saying([](Events& events) { erase_kind(events, Kind::content); })},
      {"reasoning is content", saying([](Events& events) {
         for (OutputEvent& event : events) {
           if (event.kind == Kind::reasoning) event.kind = Kind::content;
         }
       })},
      {"calls are dropped", saying([](Events& events) {
         std::erase_if(events, [](const OutputEvent& event) { return event.kind >= Kind::call_start; });
       })},
      {"calls are not ended", saying([](Events& events) { erase_kind(events, Kind::call_end); })},
      {"voids are not said", saying([](Events& events) { erase_kind(events, Kind::call_void); })},
      {"arguments are quoted", saying([](Events& events) {
         for (OutputEvent& event : events) {
           if (event.kind == Kind::call_arguments) event.text = '"' + event.text + '"';
         }
       })},
      {"arguments lose their last byte", saying([](Events& events) {
         for (OutputEvent& event : events) {
           if (event.kind == Kind::call_arguments) event.text.pop_back();
         }
       })},
      {"every call has the index 0", saying([](Events& events) {
         for (OutputEvent& event : events) event.index = 0;
       })},
      {"content is trimmed at the end", saying([](Events& events) {
         if (!events.empty() && events.back().kind == Kind::content) events.back().text.pop_back();
         if (!events.empty() && events.back().text.empty() && events.back().kind == Kind::content)
           events.pop_back();
       })},
      {"text is invented", saying([](Events& events) {
         if (!events.empty() && events.back().kind == Kind::content) events.back().text += "!";
       })},
  };
}

TEST(OutputMutants, EachFaultIsCaughtInEveryFamily) {
  for (const testing::FamilySpelling& spelling : testing::family_spellings()) {
    ASSERT_TRUE(testing::check_family(spelling, 200, 1).wrong.empty()) << spelling.family;
    for (const Fault& fault : faults()) {
      EXPECT_FALSE(testing::check_family(spelling, 200, 1, fault.parser).wrong.empty())
          << spelling.family << ": " << fault.name;
    }
  }
}

TEST(OutputMutants, UntypedValuesAreCaughtWhereMarkupIsUntyped) {
  const auto untyped = [](const OutputFormat& format, const OutputParserOptions& options,
                          const Pieces& pieces) {
    OutputParserOptions changed = options;
    changed.tools = *ToolSchemas::from_json(
        R"([{"name": "get_weather", "parameters": {"properties": {"days": {"type": "string"},
        "exact": {"type": "string"}, "share": {"type": "string"}}}}, {"name": "write-file"}])");
    return testing::events_of_pieces(format, changed, pieces);
  };
  for (const testing::FamilySpelling& spelling : testing::family_spellings()) {
    const bool is_untyped =
        spelling.family == "qwen3.5" || spelling.family == "gemma4" || spelling.family == "minicpm5";
    EXPECT_EQ(!testing::check_family(spelling, 200, 1, untyped).wrong.empty(), is_untyped) << spelling.family;
  }
}

// The account of what became of every byte.
TEST(OutputMutants, LostAndInventedTextIsCaught) {
  const std::vector<std::string> openers = {"<tool_call>"};
  const auto content = [](const std::string& text) {
    return OutputEvent{.kind = Kind::content, .text = text};
  };
  const OutputEvent end{.kind = Kind::call_end};
  const std::string input = "a <tool_call>x</tool_call> b";
  EXPECT_EQ(testing::fault_of_account({content("a "), end, content(" b")}, input, openers), "");
  EXPECT_NE(testing::fault_of_account({content("a "), content(" b")}, input, openers), "");
  EXPECT_NE(testing::fault_of_account({content("a"), end, content(" c")}, input, openers), "");
  EXPECT_NE(testing::fault_of_account({end, content(" b")}, input, openers), "");
  EXPECT_NE(testing::fault_of_account({}, input, openers), "");
}

}  // namespace
}  // namespace rafter::text

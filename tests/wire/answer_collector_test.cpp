// What is streamed is what is answered: for random texts, cuts and stop strings, the joined events equal the
// whole, and the whole is what a plain search for the stop string says.
#include "serve/answer_collector.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/support/fake_engine.h"

namespace rafter::serve {
namespace {

using Kind = text::OutputEvent::Kind;

std::string joined(const std::vector<text::OutputEvent>& events, Kind kind) {
  std::string text;
  for (const auto& event : events) {
    if (event.kind == kind) text += event.text;
  }
  return text;
}

// The text in random pieces of whole characters.
std::vector<std::string> cut(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && random() % 3 == 0) pieces.emplace_back();
    pieces.back() += text[i];
  }
  return pieces;
}

struct Outcome {
  std::vector<text::OutputEvent> events;
  Answer answer;
  bool complete = false;
};

Outcome run(const AnswerPlan& plan, const std::vector<std::string>& pieces) {
  const text::Tokenizer tokenizer = decode::byte_tokenizer();
  AnswerCollector collector = AnswerCollector::create(plan, tokenizer).value();
  Outcome outcome;
  decode::GenerationResult result;
  for (const std::string& piece : pieces) {
    result.tokens.push_back(1);
    for (auto& event : collector.push({.token = 1, .text = piece, .logprob = {}, .best = {}}))
      outcome.events.push_back(std::move(event));
    if (collector.is_complete()) break;
  }
  for (auto& event : collector.finish()) outcome.events.push_back(std::move(event));
  outcome.complete = collector.is_complete();
  outcome.answer = collector.answer(result);
  return outcome;
}

TEST(AnswerCollector, StreamedIsWholeForRandomTextsCutsAndStops) {
  std::mt19937 random(1);
  const char* parts[] = {"a", "b", "ab", "ü", "€", "😀", "\n", "STOP", "ST", "<", "<think>", "x"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (unsigned i = 0, n = random() % 30; i < n; ++i) text += parts[random() % std::size(parts)];
    AnswerPlan plan;
    for (unsigned i = 0, n = random() % 3; i < n; ++i)
      plan.stop.push_back(std::string(parts[random() % 8]) + parts[random() % 8]);
    // The earliest match, of equals the longest: by plain search.
    size_t at = std::string::npos;
    std::string found;
    for (const std::string& stop : plan.stop) {
      const size_t here = text.find(stop);
      if (here < at || (here == at && here != std::string::npos && stop.size() > found.size()))
        at = here, found = stop;
    }
    const Outcome outcome = run(plan, cut(text, random));
    EXPECT_EQ(joined(outcome.events, Kind::content), text.substr(0, at));
    EXPECT_EQ(outcome.answer.content, text.substr(0, at));
    EXPECT_EQ(outcome.complete, at != std::string::npos);
    EXPECT_EQ(outcome.answer.stop_string.value_or(""), found);
  }
}

TEST(AnswerCollector, ReasoningAndCallsMayHoldTheStop) {
  std::mt19937 random(2);
  AnswerPlan plan;
  plan.format = text::choose_output_format("", "hermes", "think").value();
  plan.parser.tools = text::ToolSchemas::from_json(R"([{"name": "f", "parameters": {}}])").value();
  plan.stop = {"END"};
  const std::string text =
      "<think>\nEND?\n</think>\n\nsay E<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "
      "\"END\"}}</tool_call>ND and END more";
  for (int round = 0; round < 300; ++round) {
    const Outcome outcome = run(plan, cut(text, random));
    EXPECT_EQ(joined(outcome.events, Kind::content), outcome.answer.content);
    EXPECT_EQ(outcome.answer.content, "say END and ");
    EXPECT_EQ(outcome.answer.reasoning.substr(0, 4), "END?");
    ASSERT_EQ(outcome.answer.calls.size(), 1u);
    EXPECT_EQ(outcome.answer.calls[0].arguments, R"({"a":"END"})");
    EXPECT_EQ(outcome.answer.ending, Ending::tool_calls);
    EXPECT_EQ(outcome.answer.stop_string, "END");
  }
}

TEST(AnswerCollector, OneCallOnlyIfAskedFor) {
  AnswerPlan plan;
  plan.format = text::choose_output_format("", "hermes", "none").value();
  plan.parallel_calls = false;
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const Outcome outcome = run(plan, {call, call, "tail"});
  EXPECT_EQ(outcome.answer.calls.size(), 1u);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.answer.usage.completion, 1);
}

TEST(AnswerCollector, ACallThatIsCutIsNoCall) {
  AnswerPlan plan;
  plan.format = text::choose_output_format("", "hermes", "none").value();
  const Outcome outcome = run(plan, {"<tool_call>{\"name\": \"f\", \"argum"});
  EXPECT_TRUE(outcome.answer.calls.empty());
  EXPECT_EQ(outcome.answer.ending, Ending::stop);
}

}  // namespace
}  // namespace rafter::serve

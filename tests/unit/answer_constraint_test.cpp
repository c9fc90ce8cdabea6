// Answers held to their forms behind reasoning, through the whole loop of generation: a model whose logits
// are noise, every phase, every family.
#include "decode/answer_constraint.h"

#include <gtest/gtest.h>

#include "tests/support/call_checks.h"
#include "tests/support/generation_checks.h"

namespace rafter::decode {
namespace {

using text::OutputEvent;

constexpr const char* kSchema =
    R"({"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":99}},"required":["n"]})";
constexpr const char* kTools =
    R"([{"name":"look","strict":true,"parameters":{"type":"object","properties":{"at":{"type":"string",
        "maxLength":4},"n":{"type":"integer","minimum":1,"maximum":3}},"required":["at","n"],
        "additionalProperties":false}}])";

struct Parsed {
  std::string reasoning, content, arguments;
  size_t calls = 0;
};

class Held : public ::testing::Test {
 protected:
  // A model that knows nothing, of a family's vocabulary.
  struct Model {
    Model(const std::string& family, const std::string& reasoning, bool has_markers)
        : format(text::choose_output_format("", family, reasoning).value()) {
      const std::vector<std::string> markers = text::kept_markers(format);
      std::vector<std::string> words = {
          "\n\n", "</", "think", ">\n", "ab", "{\"", "<|\"|>", "\n</parameter>\n", "\":"};
      std::erase_if(words, [&](const auto& w) {
        return std::find(markers.begin(), markers.end(), w) != markers.end();
      });
      tokenizer = byte_tokenizer(words, has_markers ? markers : std::vector<std::string>());
      end = tokenizer->vocab_size() - 1;
      compiler.emplace(*tokenizer, std::vector<int32_t>{end});
      form.family = family;
      form.reasoning = reasoning;
      form.reasoning_end = tokenizer->encode(text::reasoning_ending(format), false).value();
    }
    GenerationResult run(uint64_t seed, int64_t max_tokens = 600, std::vector<std::string> stop = {}) {
      auto constraint = compiler->constraint(form);
      RAFTER_CHECK(constraint.ok(), "{}", constraint.error().message());
      const int64_t vocabulary = tokenizer->vocab_size();
      FakeEngine engine(vocabulary, 4096, 64, hashing_model(vocabulary));
      sched::Scheduler lane(engine, {*tokenizer, {end}}, {});
      GenerationRequest request;
      request.prompt = {static_cast<int32_t>(seed % 200), 1, 2};
      request.sampling.temperature = 1.5f;
      request.sampling.seed = seed;
      request.max_tokens = max_tokens;
      request.stop = std::move(stop);
      request.kept_markers = text::kept_markers(format);
      request.constraint = std::move(*constraint);
      return generate_blocking(lane, std::move(request)).value();
    }
    Parsed parse(const std::string& text) {
      text::OutputParserOptions options;
      options.tools = text::ToolSchemas::from_json(kTools).value();
      options.parse_calls = form.calls.has_value();
      options.start = form.begins_in_reasoning ? text::OutputStart::reasoning : text::OutputStart::content;
      text::OutputParser parser(format, options);
      Parsed parsed;
      std::vector<OutputEvent> events = parser.push(text);
      for (OutputEvent& event : parser.finish()) events.push_back(std::move(event));
      for (const OutputEvent& event : events) {
        if (event.kind == OutputEvent::Kind::reasoning) parsed.reasoning += event.text;
        if (event.kind == OutputEvent::Kind::content) parsed.content += event.text;
        if (event.kind == OutputEvent::Kind::call_arguments) parsed.arguments += event.text;
        if (event.kind == OutputEvent::Kind::call_end) ++parsed.calls;
      }
      return parsed;
    }
    text::OutputFormat format;
    std::optional<text::Tokenizer> tokenizer;
    int32_t end = -1;
    std::optional<AnswerCompiler> compiler;
    AnswerForm form;
  };
};

bool obeys(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.contains("n") && json["n"].is_number_integer() &&
         json["n"].get<int>() <= 99;
}

TEST_F(Held, JsonBeginsWhereReasoningEnds) {
  for (const bool has_markers : {true, false}) {
    Model model("hermes", "think", has_markers);
    model.form.json_schema = kSchema;
    model.form.begins_in_reasoning = true;
    model.form.reasoning_budget = 40;
    size_t reasoned = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const GenerationResult result = model.run(seed);
      ASSERT_EQ(result.reason, FinishReason::stop) << result.text;
      const Parsed parsed = model.parse(result.text);
      EXPECT_TRUE(obeys(parsed.content)) << result.text;
      reasoned += parsed.reasoning.empty() ? 0 : 1;
    }
    EXPECT_GT(reasoned, 30u);
  }
}

TEST_F(Held, AnAnswerMayReasonFirstIfItMay) {
  Model model("hermes", "think", true);
  model.form.json_schema = kSchema;
  model.form.reasoning_budget = 5;
  size_t reasoned = 0, direct = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const GenerationResult result = model.run(seed);
    ASSERT_EQ(result.reason, FinishReason::stop) << result.text;
    const Parsed parsed = model.parse(result.text);
    EXPECT_TRUE(obeys(parsed.content)) << result.text;
    ++(result.text.starts_with("<think>") ? reasoned : direct);
  }
  EXPECT_GT(reasoned, 2u);
  EXPECT_GT(direct, 2u);
  model.form.may_reason = false;
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_TRUE(obeys(model.run(seed).text));
}

TEST_F(Held, ABudgetEndsReasoningAndTheAnswerGoesOn) {
  for (const int64_t budget : {0, 1, 7, 100}) {
    Model model("hermes", "think", true);
    model.form.begins_in_reasoning = true;
    model.form.reasoning_budget = budget;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const GenerationResult result = model.run(seed, 300);
      const size_t close = result.text.find("</think>");
      ASSERT_NE(close, std::string::npos) << result.text;
      // Bytes are tokens, words some more; a character is not cut.
      EXPECT_LE(close, static_cast<size_t>(budget) * 14 + 4) << result.text;
    }
  }
}

TEST_F(Held, MaxTokensCutsWhereverItIs) {
  Model model("hermes", "think", true);
  model.form.json_schema = kSchema;
  model.form.begins_in_reasoning = true;
  const GenerationResult result = model.run(1, 3);
  EXPECT_EQ(result.reason, FinishReason::length);
  EXPECT_EQ(result.tokens.size(), 3u);
}

TEST_F(Held, RequiredCallsAreCallsInEveryFamily) {
  for (const auto& family : text::testing::call_families()) {
    for (const char* reasoning : {"none", "think"}) {
      Model model(family.name, reasoning, true);
      model.form.calls = AnswerForm::Calls{kTools, /*are_required=*/true, /*several=*/false, family.older};
      model.form.begins_in_reasoning = *reasoning == 't';
      model.form.reasoning_budget = 10;
      size_t ended = 0;
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const GenerationResult result = model.run(seed, 900);
        if (result.reason != FinishReason::stop) continue;
        ++ended;
        const Parsed parsed = model.parse(result.text);
        EXPECT_EQ(parsed.calls, 1u) << family.name << ": " << result.text;
        EXPECT_EQ(parsed.content, "") << family.name << ": " << result.text;
        const auto arguments = nlohmann::json::parse(parsed.arguments, nullptr, false);
        ASSERT_TRUE(arguments.is_object() && arguments.contains("n")) << family.name << ": " << result.text;
        EXPECT_TRUE(arguments["n"].get<int>() >= 1 && arguments["n"].get<int>() <= 3) << parsed.arguments;
      }
      EXPECT_GT(ended, 8u) << family.name;
    }
  }
}

// Drives the constraint by hand: text that is free, then a call.
TEST_F(Held, StrictCallsObeyWhereTheTextBeginsOne) {
  Model model("hermes", "think", true);
  model.form.calls = AnswerForm::Calls{kTools, /*are_required=*/false, /*several=*/true, false};
  const auto constraint = model.compiler->constraint(model.form).value();
  const auto feed = [&](TokenConstraint& to, std::string_view text) {
    for (const int32_t token : model.tokenizer->encode(text, false).value()) {
      if (!to.accept(token)) return false;
    }
    return true;
  };
  ASSERT_TRUE(feed(*constraint, "Let me {see}."));
  EXPECT_TRUE(constraint->is_complete());
  const auto free = constraint->fork();
  EXPECT_TRUE(feed(*free, " anything < goes"));
  ASSERT_TRUE(feed(*constraint, "<tool_call>\n{\"name\": \"look\", \"arguments\": {"));
  EXPECT_FALSE(constraint->is_complete());
  EXPECT_FALSE(constraint->fork()->accept(model.end));
  EXPECT_FALSE(feed(*constraint->fork(), "\"no\""));
  ASSERT_TRUE(feed(*constraint, "\"at\":\"x\",\"n\":2}}\n</tool_call>"));
  EXPECT_TRUE(constraint->is_complete());
  EXPECT_TRUE(feed(*constraint->fork(), " and text"));
  EXPECT_FALSE(feed(*constraint->fork(), "<tool_call>{\"name\": \"other\""));
  EXPECT_TRUE(feed(*constraint, "<tool_call>{\"name\": \"look\""));
}

TEST_F(Held, WhatCannotBeHeldIsRefusedByName) {
  Model model("hermes", "none", true);
  model.form.calls = AnswerForm::Calls{
      R"([{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"not":{}}}}}])", true,
      true, false};
  const auto refused = model.compiler->constraint(model.form);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::unsupported);
  EXPECT_NE(refused.error().where.find("f: #/properties/a/not"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace rafter::decode

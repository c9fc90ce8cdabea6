// Faults that the checks of held calls must see: languages that take more than the functions' schemas, or
// other markup than the family's.
#include <gtest/gtest.h>

#include "tests/support/call_checks.h"

namespace rafter::text::testing {
namespace {

const Json kTools = Json::parse(R"([{"name":"set","strict":true,"parameters":{"type":"object","properties":
    {"n":{"type":"integer","minimum":3,"maximum":5},"mode":{"enum":["on","off"]},"note":{"type":"string","maxLength":2}},
    "required":["n","mode","note"],"additionalProperties":false}}])");

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// What kTools demand; the library of the oracle judges the real checks.
bool obeys(const std::string& arguments) {
  const Json json = Json::parse(arguments, nullptr, false);
  return json.is_object() && json.size() == 3 && json.contains("n") && json["n"].is_number_integer() &&
         json["n"] >= 3 && json["n"] <= 5 && (json["mode"] == "on" || json["mode"] == "off") &&
         json["note"].is_string() && characters(json["note"]) <= 2;
}

// Whether the checks find fault with a compiler.
bool is_caught(const CallFamily& family, const CompileCalls& compile) {
  std::mt19937 random(7);
  CallAnswers answers;
  add_call_answers(compile, family, true, kTools, random, 40, answers);
  return !answers.faults.empty() || std::any_of(answers.arguments.begin(), answers.arguments.end(),
                                                [](const Answer& answer) { return !obeys(answer.text); });
}

CompileCalls with_parameters(void (*change)(Json& parameters)) {
  return [change](const OutputFormat& format, CallLanguage language, const TokenIndex& index) {
    Json tools = Json::parse(language.tools_json);
    change(tools[0]["parameters"]);
    language.tools_json = tools.dump();
    return compile_calls(format, language, index);
  };
}

TEST(CallMutants, ALanguageThatTakesMoreIsCaughtInEveryFamily) {
  void (*const changes[])(Json&) = {
      [](Json& p) { p["properties"]["n"] = {{"type", "integer"}, {"minimum", 6}, {"maximum", 9}}; },
      [](Json& p) { p["properties"]["mode"] = {{"enum", {"On"}}}; },
      [](Json& p) { p["properties"]["note"] = {{"type", "string"}, {"minLength", 3}, {"maxLength", 5}}; },
      [](Json& p) { p["required"] = {"mode", "note"}; },
      [](Json& p) { p["properties"]["n"] = {{"type", "boolean"}}; },
  };
  for (const CallFamily& family : call_families()) {
    EXPECT_FALSE(is_caught(family, compile_calls)) << family.name;
    for (size_t i = 0; i < std::size(changes); ++i)
      EXPECT_TRUE(is_caught(family, with_parameters(changes[i]))) << family.name << " " << i;
  }
}

TEST(CallMutants, OtherMarkupIsCaught) {
  const auto as = [](const char* name) {
    return [name](const OutputFormat&, const CallLanguage& language, const TokenIndex& index) {
      return compile_calls(*choose_output_format("", name, "none"), language, index);
    };
  };
  EXPECT_TRUE(is_caught({"minicpm5"}, as("qwen3.5")));
  EXPECT_TRUE(is_caught({"hermes"}, as("gemma4")));
  EXPECT_TRUE(is_caught({"mistral"}, as("deepseek")));
  const auto renamed = [](const OutputFormat& format, CallLanguage language, const TokenIndex& index) {
    Json tools = Json::parse(language.tools_json);
    tools[0]["name"] = "get";
    language.tools_json = tools.dump();
    return compile_calls(format, language, index);
  };
  for (const CallFamily& family : call_families()) EXPECT_TRUE(is_caught(family, renamed)) << family.name;
}

}  // namespace
}  // namespace rafter::text::testing

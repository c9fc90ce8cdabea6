// Calls held to their functions' schemas in every family's markup: what random tokens write under the masks,
// the family's parser reads as calls, and the `jsonschema` library takes their arguments.
#include <gtest/gtest.h>

#include "tests/support/call_checks.h"

namespace rafter::text::testing {
namespace {

Json tool(const char* name, Json parameters, bool strict = true) {
  return {{"name", name}, {"parameters", std::move(parameters)}, {"strict", strict}};
}

const CompileCalls kCompile = compile_calls;

// Parameters of the kinds that tools have.
const char* const kParameters[] = {
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":9}},
        "required":["city"],"additionalProperties":false})",
    R"({"type":"object","properties":{"path":{"type":"string","minLength":1},"text":{"type":"string"},
        "mode":{"enum":["r","w","<a&b>"]}},"required":["path","text","mode"],"additionalProperties":false})",
    R"({"type":"object","properties":{"edits":{"type":"array","items":{"type":"object","properties":
        {"old":{"type":"string"},"new":{"type":"string"}},"required":["old","new"],"additionalProperties":false},
        "minItems":1,"maxItems":3}},"required":["edits"],"additionalProperties":false})",
    R"({"type":"object","properties":{"note":{"type":["string","null"],"maxLength":6},"flag":{"type":"boolean"},
        "either":{"anyOf":[{"type":"integer","minimum":500},{"type":"string","maxLength":4}]}},
        "required":["note","either"],"additionalProperties":false})",
    R"({"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"},"next":{"anyOf":[{"$ref":"#/$defs/p"},
        {"type":"null"}]}},"required":["x"],"additionalProperties":false}},"type":"object",
        "properties":{"p":{"$ref":"#/$defs/p"},"id":{"type":"string","pattern":"^[a-z]{2,4}-[0-9]+$"},
        "when":{"type":"string","format":"date"}},"required":["p","id"],"additionalProperties":false})",
    R"({"type":"object","properties":{"kind":{"const":"x y"},"n":{"enum":[1,2,"three",null]}},
        "required":["kind","n"],"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"string","maxLength":3}},"additionalProperties":{"type":"integer"}})",
    R"({"type":"object"})",
    R"({})",
};

TEST(CallGrammar, WhatTheMasksLetThroughAreCallsThatObey) {
  if (!oracle_python()) GTEST_SKIP() << "no Python environment of the oracle: run make oracle";
  std::mt19937 random(5);
  CallAnswers answers;
  for (const CallFamily& family : call_families()) {
    for (size_t i = 0; i < std::size(kParameters); ++i) {
      const Json tools = Json::array(
          {tool("first", Json::parse(kParameters[i])), tool("second-one", Json::parse(kParameters[0]))});
      add_call_answers(kCompile, family, i % 2 == 0, tools, random, 6, answers);
    }
  }
  for (const std::string& fault : answers.faults) ADD_FAILURE() << fault;
  for (const CallFamily& family : call_families())
    EXPECT_GT(answers.finished[family.name], 30u) << family.name;
  EXPECT_EQ(faults_of(answers.arguments), "");
}

TEST(CallGrammar, RandomSchemas) {
  if (!oracle_python()) GTEST_SKIP() << "no Python environment of the oracle: run make oracle";
  std::mt19937 random(6);
  CallAnswers answers;
  size_t i = 0;
  for (const OracleCase& one : oracle_cases()) {
    const Json schema = Json::parse(one.schema);
    if (one.schema.find("$ref") != std::string::npos || !schema.is_object()) continue;
    const CallFamily& family = call_families()[i++ % call_families().size()];
    const Json parameters = {{"type", "object"},
                             {"properties", {{"value", schema}, {"text", {{"type", "string"}}}}},
                             {"required", {"value"}},
                             {"additionalProperties", false}};
    // A schema that only a string of another notation could satisfy may be refused.
    add_call_answers(kCompile, family, i % 3 != 0, Json::array({tool("f", parameters, /*strict=*/true)}),
                     random, 2, answers);
  }
  for (const std::string& fault : answers.faults) ADD_FAILURE() << fault;
  for (const CallFamily& family : call_families())
    EXPECT_GT(answers.finished[family.name], 20u) << family.name;
  EXPECT_EQ(faults_of(answers.arguments), "");
}

}  // namespace
}  // namespace rafter::text::testing

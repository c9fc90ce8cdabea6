// Planted faults in the compilation of schemas: the cases by hand must see every one of them, and the
// library's judgement every bad answer.
#include <functional>

#include <gtest/gtest.h>

#include "tests/support/schema_cases.h"
#include "tests/support/schema_oracle.h"

namespace rafter::text {
namespace {

using testing::Json;

// The fault is made in every object of a schema.
void change_all(Json& json, const std::function<void(Json&)>& change) {
  if (json.is_object()) change(json);
  if (!json.is_structured()) return;
  for (Json& part : json) change_all(part, change);
}

size_t count_wrong(const std::function<void(Json&)>& change) {
  const testing::Compile compile = [&](std::string_view schema, const TokenIndex& index) {
    Json changed = Json::parse(schema);
    change_all(changed, change);
    return compile_json_schema(changed.dump(), index);
  };
  return testing::wrong_cases(compile, testing::byte_index()).size();
}

void rename(Json& schema, const char* from, const char* to) {
  if (!schema.contains(from)) return;
  schema[to] = schema[from];
  schema.erase(from);
}

TEST(SchemaMutants, TheUnchangedCompilerPasses) {
  EXPECT_EQ(count_wrong([](Json&) {}), 0u);
}

TEST(SchemaMutants, EveryKeywordIsMissed) {
  for (const char* keyword : {"type",
                              "enum",
                              "const",
                              "properties",
                              "required",
                              "additionalProperties",
                              "items",
                              "prefixItems",
                              "minItems",
                              "maxItems",
                              "minLength",
                              "maxLength",
                              "pattern",
                              "format",
                              "minimum",
                              "maximum",
                              "exclusiveMinimum",
                              "exclusiveMaximum",
                              "multipleOf",
                              "anyOf",
                              "oneOf",
                              "allOf",
                              "$ref",
                              "nullable",
                              "not",
                              "uniqueItems"}) {
    EXPECT_GT(count_wrong([&](Json& schema) { schema.erase(keyword); }), 0u) << keyword;
  }
}

TEST(SchemaMutants, BoundsAreOffByOne) {
  for (const char* keyword : {"minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"}) {
    for (int by : {-1, 1}) {
      const auto change = [&](Json& schema) {
        if (schema.contains(keyword) && schema[keyword].is_number())
          schema[keyword] = schema[keyword].get<double>() + by;
      };
      EXPECT_GT(count_wrong(change), 0u) << keyword << by;
    }
  }
  EXPECT_GT(count_wrong([](Json& schema) { rename(schema, "exclusiveMinimum", "minimum"); }), 0u);
  EXPECT_GT(count_wrong([](Json& schema) { rename(schema, "exclusiveMaximum", "maximum"); }), 0u);
}

TEST(SchemaMutants, CombinationsAreConfused) {
  EXPECT_GT(count_wrong([](Json& schema) { rename(schema, "allOf", "anyOf"); }), 0u);
  EXPECT_GT(count_wrong([](Json& schema) { rename(schema, "anyOf", "allOf"); }), 0u);
}

TEST(SchemaMutants, EndsAreConfused) {
  // An index without an end token, and one where a quote is the end.
  const Tokenizer tokenizer = decode::byte_tokenizer({});
  for (const std::vector<int32_t>& ends : {std::vector<int32_t>{'"'}, std::vector<int32_t>{'}'}}) {
    EXPECT_FALSE(TokenIndex::from(tokenizer, ends).ok());
  }
}

TEST(SchemaMutants, TheLibrarySeesBadAnswers) {
  if (!testing::oracle_python()) GTEST_SKIP() << "no Python environment of the oracle: run make oracle";
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"string","format":"date"}},"required":["a"]})";
  EXPECT_EQ(testing::faults_of({{schema, R"({"a":"2024-02-29"})"}}), "");
  for (const char* text :
       {R"({"a":"2023-02-29"})", "{}", R"({"a":"2024-02-29"}})", R"({"a":1e999})", R"({"a":"\ud800"})", ""}) {
    EXPECT_NE(testing::faults_of({{schema, text}}), "") << text;
  }
}

}  // namespace
}  // namespace rafter::text

// Compiled JSON schemas on cases written by hand, which oracle/json_schema.py checks against the `jsonschema`
// library, and on schemas that mean harm.
#include <chrono>

#include <gtest/gtest.h>

#include "tests/support/schema_cases.h"

namespace rafter::text {
namespace {

using testing::byte_index;

base::Result<testing::Compiled> compile(std::string_view schema) {
  return compile_json_schema(schema, byte_index());
}

TEST(JsonSchema, CasesByHand) {
  const auto wrong = testing::wrong_cases(&compile_json_schema, byte_index());
  for (const std::string& one : wrong) ADD_FAILURE() << one;
}

TEST(JsonSchema, MasksAreWhatTheMachineReads) {
  // Every token's bytes read one by one from states of random answers say what the mask says.
  std::mt19937 random(5);
  for (const testing::Json& one : testing::schema_cases()) {
    if (one.contains("error")) continue;
    const auto schema = compile(one["schema"].dump());
    ASSERT_TRUE(schema.ok());
    for (int walk = 0; walk < 3; ++walk) {
      SchemaState state = (*schema)->start();
      for (int step = 0; step < 30; ++step) {
        const auto mask = (*schema)->mask(state);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < byte_index().vocab_size(); ++id) {
          SchemaState next = state;
          const bool reads =
              byte_index().is_end(id) ? (*schema)->is_complete(state) : (*schema)->advance(next, id);
          ASSERT_EQ(mask->allows(id), reads) << one["schema"] << " token " << id;
          if (reads && !byte_index().is_end(id)) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        ASSERT_TRUE((*schema)->advance(state, allowed[random() % allowed.size()]));
      }
    }
  }
}

TEST(JsonSchema, EveryPrefixCanBeCompleted) {
  std::mt19937 random(7);
  for (const testing::Json& one : testing::schema_cases()) {
    if (one.contains("error")) continue;
    const auto schema = compile(one["schema"].dump());
    ASSERT_TRUE(schema.ok());
    int ended = 0;
    for (int i = 0; i < 10; ++i) {
      const auto text = testing::random_answer(**schema, random, 3000);
      if (!text) continue;
      ++ended;
      EXPECT_TRUE(testing::Json::accept(*text)) << *text;
    }
    // Who knows nothing rarely finds what an unanchored pattern wants.
    EXPECT_GE(ended, one["schema"].contains("pattern") ? 1 : 9) << one["schema"];
  }
}

TEST(JsonSchema, MasksOnLogits) {
  const auto schema = compile(R"({"type":"string"})");
  ASSERT_TRUE(schema.ok());
  SchemaState state = (*schema)->start();
  for (const char* text : {"\"", "a"}) {
    for (size_t size : {10, 64, 256, 288, 400}) {
      std::vector<float> logits(size, 1.0f);
      const auto mask = (*schema)->mask(state);
      mask->apply(logits);
      for (size_t i = 0; i < size; ++i) {
        EXPECT_EQ(logits[i], mask->allows(static_cast<int32_t>(i)) ? 1.0f : -INFINITY) << size << " " << i;
      }
    }
    ASSERT_TRUE((*schema)->advance(state, static_cast<uint8_t>(text[0])));
  }
}

TEST(JsonSchema, CopiesGoOnIndependently) {
  const auto schema = compile(R"({"enum":["ab","ac"]})");
  ASSERT_TRUE(schema.ok());
  SchemaState one = (*schema)->start();
  for (char c : {'"', 'a'}) ASSERT_TRUE((*schema)->advance(one, c));
  SchemaState other = one;
  EXPECT_TRUE((*schema)->advance(one, 'b'));
  EXPECT_FALSE((*schema)->advance(one, 'c'));  // and nothing changes
  EXPECT_TRUE((*schema)->advance(other, 'c'));
  EXPECT_TRUE((*schema)->advance(one, '"'));
  EXPECT_TRUE((*schema)->is_complete(one));
  EXPECT_FALSE((*schema)->can_continue(one));
  EXPECT_FALSE((*schema)->is_complete(other));
}

TEST(JsonSchema, MemoryStartsAfresh) {
  // Every character of a long string, and every depth of a list, is a configuration of its own.
  const auto schema = compile(R"({"type":"array","items":{"$ref":"#"}})");
  ASSERT_TRUE(schema.ok());
  constexpr int kDepth = 50'000;
  SchemaState state = (*schema)->start();
  for (int i = 0; i < kDepth; ++i)
    ASSERT_TRUE((*schema)->advance(state, '[') && (*schema)->mask(state)->allows(']'));
  for (int i = 0; i < kDepth; ++i)
    ASSERT_TRUE((*schema)->mask(state)->allows(']') && (*schema)->advance(state, ']'));
  EXPECT_TRUE((*schema)->is_complete(state));
}

// Compiles and takes a few steps; returns the seconds.
double seconds_of(const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  const auto schema = compile(text);
  std::mt19937 random(1);
  if (schema.ok()) (void)testing::random_answer(**schema, random, 50);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string repeat(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(JsonSchema, HostileSchemasTakeBoundedTime) {
  std::vector<std::string> schemas = {
      "",
      "{",
      "{}x",
      repeat("[", 100'000),
      repeat(R"({"items":)", 100'000),
      repeat(R"({"items":)", 120) + "{}" + repeat("}", 120),
      repeat(R"({"allOf":[)", 60) + "{}" + repeat("]}", 60),
      "{\"pattern\":\"" + repeat("(", 5000) + "\"}",
      "{\"pattern\":\"" + repeat("(a|b|c)*", 300) + "\"}",
      R"({"pattern":"((((a{1,50}){1,50}){1,50}){1,50}){1,50}"})",
      R"({"pattern":"^(.{0,50}a){20}$"})",
      R"({"pattern":"(x+x+)+y","minLength":20000})",
      R"({"pattern":"^[a-z]*$","maxLength":20000})",
      R"({"maxLength":20000})",
      R"({"maxItems":20000,"items":{"maxItems":20000,"items":{"maxItems":20000}}})",
      R"({"enum":[")" + repeat(R"(aaaaaaaaaaaaaaaaaaaaaaaa",")", 20'000) + R"("]})",
      R"({"type":"integer","minimum":-1e300,"maximum":1e300,"multipleOf":997})",
  };
  // An object with many optional members, a chain of references, choices that multiply, lists that are alike.
  std::string members, chain, unions, alike;
  for (int i = 0; i < 3000; ++i) members += (i ? "," : "") + fmt::format(R"("m{}":{{"type":"integer"}})", i);
  schemas.push_back(R"({"properties":{)" + members + "}}");
  for (int i = 0; i < 3000; ++i) chain += fmt::format(R"("d{}":{{"$ref":"#/$defs/d{}"}},)", i, i + 1);
  schemas.push_back(R"({"$ref":"#/$defs/d0","$defs":{)" + chain + R"("d3000":{"type":"null"}}})");
  for (int i = 0; i < 40; ++i) {
    unions +=
        (i ? "," : "") +
        fmt::format(R"({{"anyOf":[{{"properties":{{"a{0}":{{}}}}}},{{"properties":{{"b{0}":{{}}}}}}]}})", i);
  }
  schemas.push_back(R"({"allOf":[)" + unions + "]}");
  for (int i = 0; i < 200; ++i)
    alike +=
        (i ? "," : "") + fmt::format(R"({{"type":"array","maxItems":{},"items":{{"$ref":"#"}}}})", i + 1);
  schemas.push_back(R"({"anyOf":[)" + alike + "]}");
  // Combinations that make new schemas of themselves.
  schemas.push_back(
      R"({"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/n"}}},{"properties":{"x":{"allOf":[{"$ref":"#/$defs/n"},{"minProperties0":1}]},"y":{}}}]}}})");
  for (const std::string& schema : schemas) {
    EXPECT_LT(seconds_of(schema), 5) << schema.substr(0, 100) << " (" << schema.size() << " bytes)";
  }
}

TEST(JsonSchema, TokenizersThatCannotBeHeld) {
  TokenizerSpec spec;
  WordLevelSpec words;
  words.pieces = {"a", "b", "<unk>"};
  spec.model = words;
  spec.joins_with_spaces = true;
  const auto tokenizer = Tokenizer::from_spec(spec, "test");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  const auto index = TokenIndex::from(*tokenizer, {});
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().code, base::ErrorCode::unsupported);
}

}  // namespace
}  // namespace rafter::text

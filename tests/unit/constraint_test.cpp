// Answers held to a schema through the whole loop of generation: every kind of sampling, alone and in
// company.
#include <gtest/gtest.h>

#include "decode/json_constraint.h"
#include "tests/support/generation_checks.h"
#include "tests/support/schema_cases.h"

namespace rafter::decode {
namespace {

constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},"n":{"type":"integer","minimum":0,)"
    R"("maximum":99},"tags":{"type":"array","items":{"enum":["ab","abc"]},"maxItems":3}},"required":["name","n"]})";

class Constraint : public ::testing::Test {
 protected:
  Constraint() : index_(text::TokenIndex::from(tokenizer_, std::span(&end_, 1)).value()) {}

  std::shared_ptr<TokenConstraint> constraint(std::string_view schema) const {
    return std::make_shared<JsonConstraint>(text::compile_json_schema(schema, index_).value());
  }
  GenerationResult run(GenerationRequest request, int64_t padding = 0) const {
    const int64_t vocabulary = kVocabulary + padding;  // more than the tokenizer has, as padded weights do
    FakeEngine engine(vocabulary, 4096, 64, hashing_model(vocabulary));
    sched::Scheduler loop(engine, {tokenizer_, {end_}}, {});
    return generate_blocking(loop, std::move(request)).value();
  }

  text::Tokenizer tokenizer_ = byte_tokenizer({"{\"name\":\"", "\",\"n\":", "ab", "[\"abc\"]", "}}", "12"});
  int32_t end_ = tokenizer_.vocab_size() - 1;
  text::TokenIndex index_;
};

TEST_F(Constraint, EverySamplerObeys) {
  for (int i = 0; i < 60; ++i) {
    GenerationRequest request = varied_request(i);
    request.max_tokens = 400;
    request.sampling.top_k = i % 5 == 0 ? 3 : 0;
    request.sampling.min_p = i % 7 == 0 ? 0.2f : 0.0f;
    request.sampling.xtc_probability = i % 6 == 0 ? 0.9f : 0.0f;
    request.sampling.xtc_threshold = 0.1f;
    request.sampling.top_logprobs = i % 4 == 0 ? 3 : -1;
    if (i % 3 == 1) request.sampling.logit_bias = {{'x', 100.0f}, {end_, 100.0f}};
    request.constraint = constraint(kSchema);
    const GenerationResult result = run(request, i % 2 == 0 ? 0 : 37);
    ASSERT_EQ(result.reason, FinishReason::stop)
        << i << " " << (result.error ? result.error->message() : result.text);
    const auto json = nlohmann::json::parse(result.text, nullptr, false);
    ASSERT_TRUE(json.is_object()) << result.text;
    EXPECT_TRUE(json["name"].is_string() && json["n"].is_number_integer()) << result.text;
    EXPECT_LE(json["n"].get<int>(), 99);
  }
}

TEST_F(Constraint, EndsWithoutAnEndTokenWhereNothingElseMayFollow) {
  GenerationRequest request = greedy({1, 2, 3}, 100);
  request.ignore_end = true;
  request.constraint = constraint(R"({"enum":["ab"]})");
  const GenerationResult result = run(request);
  EXPECT_EQ(result.reason, FinishReason::stop);
  EXPECT_TRUE(result.text == "\"ab\"" || result.text == " \"ab\"" || result.text.ends_with("\"ab\""))
      << result.text;
  EXPECT_NE(result.tokens.back(), end_);
}

TEST_F(Constraint, LengthIsNoNormalEnd) {
  GenerationRequest request = greedy({1, 2, 3}, 3);
  request.constraint = constraint(kSchema);
  EXPECT_EQ(run(request).reason, FinishReason::length);
}

TEST_F(Constraint, ForksGoOnIndependently) {
  const auto one = constraint(R"({"enum":[12,13]})");
  ASSERT_TRUE(one->accept('1'));
  const auto other = one->fork();
  EXPECT_TRUE(one->accept('2'));
  EXPECT_FALSE(one->accept('3'));
  EXPECT_TRUE(one->must_end());
  EXPECT_TRUE(one->accept(end_));
  EXPECT_FALSE(one->accept(end_));
  EXPECT_FALSE(other->is_complete());
  EXPECT_FALSE(other->accept(end_));
  EXPECT_TRUE(other->accept('3'));
}

TEST_F(Constraint, RowsOfOneSchemaDoNotMeet) {
  const auto schema = text::compile_json_schema(kSchema, index_).value();
  const int64_t vocabulary = kVocabulary;
  std::vector<std::string> together(8);
  FakeEngine engine(vocabulary, 4096, 64, hashing_model(vocabulary));
  sched::Scheduler loop(engine, {tokenizer_, {end_}}, {});
  const auto request_of = [&](int i) {
    GenerationRequest request = varied_request(i);
    request.max_tokens = 400;
    request.constraint = std::make_shared<JsonConstraint>(schema);
    return request;
  };
  for (int i = 0; i < 8; ++i) {
    const auto keep = [&together, i](const GenerationResult& result) {
      together[static_cast<size_t>(i)] = result.text;
    };
    ASSERT_TRUE(loop.submit(request_of(i), {.on_finish = keep}).ok());
  }
  while (loop.step()) {
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(run(request_of(i)).text, together[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace rafter::decode

#include "serve/worker_messages.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace rafter::serve {
namespace {

using nlohmann::json;

// As it arrives at the other end.
json sent(const json& message) { return json::parse(message.dump()); }

TEST(WorkerMessages, RequestsArriveWhole) {
  CompletionRequest request;
  request.prompt = {1, 2, 300000};
  request.boundaries = {1, 2};
  request.sampling.temperature = 0.35f;
  request.sampling.top_p = 0.95f;
  request.sampling.min_p = 0.05f;
  request.sampling.top_k = 40;
  request.sampling.xtc_probability = 0.5f;
  request.sampling.xtc_threshold = 0.1f;
  request.sampling.xtc_exempt = {1, 13};
  request.sampling.repetition = {1.1f, 64};
  request.sampling.presence = {0.5f, 0};
  request.sampling.frequency = {-0.5f, 7};
  request.sampling.logit_bias = {{5, -100.0f}, {6, 3.5f}};
  request.sampling.seed = std::numeric_limits<uint64_t>::max();
  request.sampling.top_logprobs = 5;
  request.max_tokens = 64000;
  request.stop = {"\n\n", "é"};
  request.ignore_end = true;
  request.kept_markers = {"<tool_call>"};
  request.form = decode::AnswerForm{.family = "hermes",
                                    .reasoning = "think",
                                    .json_schema = "{}",
                                    .calls = decode::AnswerForm::Calls{"[]", true, false, true},
                                    .begins_in_reasoning = true,
                                    .may_reason = false,
                                    .reasoning_budget = 7,
                                    .reasoning_end = {1, 2}};
  request.cache_space = "lora";
  const json once = json_of_request(request);
  const auto read = read_request(sent(once));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(json_of_request(*read), once);
  EXPECT_EQ(read->sampling.seed, request.sampling.seed);
  EXPECT_EQ(read->sampling.temperature, request.sampling.temperature);
  EXPECT_EQ(read->prompt, request.prompt);

  const json bare = json_of_request({});
  EXPECT_EQ(json_of_request(read_request(sent(bare)).value()), bare);
  EXPECT_FALSE(read_request(bare)->max_tokens);
}

TEST(WorkerMessages, TokensAndResultsArriveWhole) {
  decode::TokenEvent event{7, "é", -0.25f, {{7, -0.25f}, {9, -std::numeric_limits<float>::infinity()}}};
  const auto token = read_token(sent(json_of_token(3, event)));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->token, 7);
  EXPECT_EQ(token->text, "é");
  EXPECT_EQ(token->logprob, -0.25f);
  ASSERT_EQ(token->best.size(), 2u);
  EXPECT_TRUE(std::isinf(token->best[1].logprob));
  EXPECT_FALSE(read_token(sent(json_of_token(3, {std::nullopt, "held", std::nullopt, {}})))->token);

  decode::GenerationResult result;
  result.reason = decode::FinishReason::error;
  result.error = base::Error{base::ErrorCode::out_of_memory, "too long", "context", "shorten it"};
  result.stop_string = "x";
  result.prompt_tokens = 5;
  result.cached_tokens = 4;
  result.seed = 1ull << 63;
  result.logits_hash = "00ff";
  const auto read = read_result(sent(json_of_result(3, result)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(json_of_result(3, *read), json_of_result(3, result));
  EXPECT_EQ(read->error->message(), result.error->message());
  EXPECT_EQ(read->error->code, base::ErrorCode::out_of_memory);
}

TEST(WorkerMessages, WhatIsMissingOrOfAnotherTypeIsAnError) {
  const json whole = json_of_request({});
  for (const auto& [key, value] : whole.items()) {
    json without = whole, wrong = whole;
    without.erase(key);
    EXPECT_FALSE(read_request(without).ok()) << key;
    wrong[key] = json::object();
    EXPECT_FALSE(read_request(wrong).ok()) << key;
  }
  EXPECT_FALSE(read_facts(json::object()).ok());
  EXPECT_FALSE(read_stats(json::array()).ok());
  EXPECT_FALSE(read_token({{"text", 5}}).ok());
  EXPECT_FALSE(read_result(json()).ok());
  EXPECT_FALSE(read_progress({{"queued_before", "no"}}).ok());
  EXPECT_EQ(read_error(json(5)).code, base::ErrorCode::internal);
  EXPECT_EQ(whole_number({{"id", -4}}, "id", 9), 9u);
  EXPECT_EQ(text_of(json::array(), "type"), "");
}

}  // namespace
}  // namespace rafter::serve

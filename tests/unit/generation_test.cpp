#include <random>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "tests/support/generation_checks.h"

namespace rafter::decode {
namespace {

std::vector<int32_t> ids_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Runs one script through the lane; returns the events' texts and the result.
struct ScriptedRun {
  std::vector<std::string> deltas;
  GenerationResult result;
};
ScriptedRun run_script(const std::vector<int32_t>& script, const text::Tokenizer& tokenizer,
                       GenerationRequest request, std::vector<int32_t> end_tokens) {
  const int64_t vocabulary = tokenizer.vocab_size();
  FakeEngine engine(vocabulary, 1000, 16, scripted_model(vocabulary, request.prompt.size(), script));
  sched::Scheduler lane(engine, {tokenizer, std::move(end_tokens)}, {});
  ScriptedRun run;
  run.result = generate_blocking(lane, std::move(request), [&](const TokenEvent& event) {
                 run.deltas.push_back(event.text);
               }).value();
  std::string joined;
  for (const auto& delta : run.deltas) joined += delta;
  EXPECT_EQ(joined, run.result.text);
  return run;
}

TEST(Generation, ABatchOfOneEqualsARequestInCompany) {
  for (int capacity : {4, 9, 64}) {
    FakeEngine engine(kVocabulary, 4096, capacity, hashing_model(kVocabulary));
    EXPECT_EQ(company_differences(engine, capacity == 9 ? 3 : 0), "");
    EXPECT_TRUE(engine.sequences.empty()) << "sequences leaked";
  }
}

TEST(Generation, TheCutOfThePromptDoesNotMatter) {
  const GenerationRequest request = varied_request(5);
  const GenerationResult whole = run_alone(request);
  for (int64_t chunk : {1, 2, 7, 63}) EXPECT_EQ(run_alone(request, chunk).tokens, whole.tokens) << chunk;
}

TEST(Generation, PromptChunksShareStepsWithDecodeRows) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {.prefill_chunk = 4});
  ASSERT_TRUE(lane.submit(greedy({1, 2}, 50), {}).ok());
  ASSERT_TRUE(lane.step());
  ASSERT_TRUE(lane.submit(greedy(std::vector<int32_t>(10, 5), 5), {}).ok());
  for (int i = 0; i < 3; ++i) lane.step();
  EXPECT_EQ(engine.step_rows,
            (std::vector<size_t>{2, 5, 5, 3}));  // one decode row and up to four of the prompt
  EXPECT_EQ(engine.step_sequences[1].size(), 2u);
}

TEST(Generation, MoreRequestsThanRowsTakeTurns) {
  FakeEngine engine(kVocabulary, 4096, 2, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  std::map<int, int> finished_at;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(lane.submit(greedy({i}, 10),
                            {.on_finish = [&, i](const GenerationResult&) { finished_at[i] = engine.steps; }})
                    .ok());
  }
  while (lane.step()) {
  }
  ASSERT_EQ(finished_at.size(), 5u);
  EXPECT_LE(engine.steps, 30);
}

TEST(Generation, StopsAtEndTokens) {
  const text::Tokenizer tokenizer = byte_tokenizer({"one", " two"});
  const int32_t end = *tokenizer.token_id("<end>");
  ScriptedRun run = run_script({256, 257, end, 256}, tokenizer, greedy({1, 2, 3}, 50), {end, 999});
  EXPECT_EQ(run.result.reason, FinishReason::stop);
  EXPECT_FALSE(run.result.stop_string);
  EXPECT_EQ(run.result.text, "one two");
  EXPECT_EQ(run.result.tokens, (std::vector<int32_t>{256, 257, end}));
  EXPECT_EQ(run.result.prompt_tokens, 3);

  // A token that ends a turn need not be special for its text to stay hidden.
  EXPECT_EQ(run_script({256, 'x', 257}, tokenizer, greedy({1}, 50), {'x'}).result.text, "one");

  GenerationRequest on = greedy({1, 2, 3}, 4);
  on.ignore_end = true;
  run = run_script({256, 257, end, 256}, tokenizer, on, {end});
  EXPECT_EQ(run.result.reason, FinishReason::length);
  EXPECT_EQ(run.result.text, "one twoone");
}

TEST(Generation, KeptMarkersComeOutAsText) {
  const text::Tokenizer tokenizer = byte_tokenizer({"one"});
  const int32_t end = *tokenizer.token_id("<end>");
  GenerationRequest request = greedy({1}, 4);
  request.ignore_end = true;
  EXPECT_EQ(run_script({256, end, 0xC3, 0xA9}, tokenizer, request, {}).result.text, "oneé");
  request.kept_markers = {"<end>", "<no token>"};
  EXPECT_EQ(run_script({256, end, 0xC3, 0xA9}, tokenizer, request, {}).result.text, "one<end>é");
}

TEST(Generation, StopStringsAcrossTokens) {
  const text::Tokenizer tokenizer = byte_tokenizer({"He", "llo ST", "OP", " rest", "STO"});
  const auto with_stop = [](std::vector<std::string> stop) {
    GenerationRequest request = greedy({1}, 50);
    request.stop = std::move(stop);
    return request;
  };
  ScriptedRun run = run_script({256, 257, 258, 259}, tokenizer, with_stop({"STOP", "never"}), {});
  EXPECT_EQ(run.deltas, (std::vector<std::string>{"He", "llo ", ""}));  // "ST" is held until it is decided
  EXPECT_EQ(run.result.text, "Hello ");
  EXPECT_EQ(run.result.stop_string, "STOP");
  EXPECT_EQ(run.result.reason, FinishReason::stop);
  EXPECT_EQ(run.result.tokens.size(), 3u);

  // What looked like a stop string and was none is released, at the latest at the end.
  run = run_script({256, 260, 259, 260}, tokenizer,
                   [&] {
                     auto request = with_stop({"STOP"});
                     request.max_tokens = 4;
                     return request;
                   }(),
                   {});
  EXPECT_EQ(run.result.text, "HeSTO restSTO");
  EXPECT_EQ(run.result.reason, FinishReason::length);

  // A character in two tokens as a stop string.
  run = run_script({256, 0xC3, 0xA9, 259}, tokenizer, with_stop({"é"}), {});
  EXPECT_EQ(run.result.text, "He");
  EXPECT_EQ(run.result.stop_string, "é");
}

TEST(Generation, HalfACharacterIsNeverShown) {
  const text::Tokenizer tokenizer = byte_tokenizer();
  const ScriptedRun run = run_script(ids_of("a\xF0\x9F\x98\x80z\xC3"), tokenizer, greedy({1}, 7), {});
  EXPECT_EQ(run.deltas, (std::vector<std::string>{"a", "", "", "", "\xF0\x9F\x98\x80", "z", "\xEF\xBF\xBD"}));
}

TEST(Generation, LengthIsKept) {
  for (int64_t limit : {1, 2, 17}) {
    const GenerationResult result = run_alone(greedy({3, 4}, limit));
    EXPECT_EQ(static_cast<int64_t>(result.tokens.size()), limit);
    EXPECT_EQ(result.reason, FinishReason::length);
  }
}

TEST(Generation, TheContextLimitIsRefusedBeforeAnyWork) {
  FakeEngine engine(kVocabulary, 100, 64, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  const std::vector<int32_t> prompt(60, 1);
  const auto refused = [&](GenerationRequest request) {
    const auto status = lane.submit(std::move(request), {});
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, base::ErrorCode::out_of_memory);
    return status.error().message();
  };
  const std::string message = refused(greedy(prompt, 41));
  for (const char* number : {"60", "41", "101", "100", "40"}) {
    EXPECT_NE(message.find(number), std::string::npos) << number << " in " << message;
  }
  EXPECT_NE(refused(greedy(std::vector<int32_t>(100, 1), std::nullopt)).find("101"), std::string::npos);
  refused(greedy(prompt, std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(engine.steps, 0);
  EXPECT_TRUE(engine.sequences.empty());

  EXPECT_EQ(generate_blocking(lane, greedy(prompt, 40))->tokens.size(), 40u);  // exactly full
  // Without a number of the caller's: what is left.
  EXPECT_EQ(generate_blocking(lane, greedy(prompt, std::nullopt))->tokens.size(), 40u);
  engine.store_positions = 73;
  EXPECT_EQ(generate_blocking(lane, greedy(prompt, std::nullopt))->tokens.size(), 13u);
  engine.store_positions = 60;
  EXPECT_NE(refused(greedy(prompt, std::nullopt)).find("61 positions"), std::string::npos);
}

TEST(Generation, BadRequestsAreRefused) {
  FakeEngine engine(kVocabulary, 100, 64, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  const auto where = [&](GenerationRequest request) {
    return lane.submit(std::move(request), {}).error().where;
  };
  EXPECT_EQ(where(greedy({}, 5)), "prompt");
  EXPECT_EQ(where(greedy({1, 300}, 5)), "prompt");
  EXPECT_EQ(where(greedy({-1}, 5)), "prompt");
  EXPECT_EQ(where(greedy({1}, 0)), "max_tokens");
  GenerationRequest request = greedy({1}, 5);
  request.sampling.top_p = 2;
  EXPECT_EQ(where(request), "top_p");
  request = greedy({1}, 5);
  request.stop = {""};
  EXPECT_FALSE(lane.submit(request, {}).ok());
  EXPECT_FALSE(lane.step());
  EXPECT_EQ(engine.steps, 0);
}

TEST(Generation, KeptPrefixesAreReused) {
  for (size_t most : {1, 2, 100}) {
    FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
    EXPECT_EQ(reuse_differences(engine, most), "") << most;
    EXPECT_TRUE(engine.sequences.empty()) << "sequences leaked";
  }
}

TEST(Generation, CancellingEndsARequestAndNotItsNeighbours) {
  FakeEngine engine(kVocabulary, 4096, 8, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 1 << 20});
  const auto expect_true_record = [&](size_t leaves) {
    EXPECT_EQ(engine.sequences.size(), leaves);
    for (const auto& leaf : lane.prefixes().leaves())
      EXPECT_EQ(engine.sequences.at(leaf.sequence), leaf.tokens);
  };
  std::atomic<bool> cancelled{false};
  std::optional<GenerationResult> first, second;
  GenerationRequest request = varied_request(1);
  request.cancelled = &cancelled;
  request.max_tokens = 1000;
  int events = 0;
  ASSERT_TRUE(lane.submit(request, {.on_token =
                                        [&](const TokenEvent&) {
                                          if (++events == 5) cancelled = true;
                                        },
                                    .on_finish = [&](const GenerationResult& r) { first = r; }})
                  .ok());
  ASSERT_TRUE(
      lane.submit(varied_request(2), {.on_finish = [&](const GenerationResult& r) { second = r; }}).ok());
  while (lane.step()) {
  }
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->reason, FinishReason::cancelled);
  EXPECT_EQ(first->tokens.size(), 5u);
  EXPECT_EQ(second->tokens, run_alone(varied_request(2)).tokens);
  expect_true_record(2);

  // During a long prompt too, and what was computed of it is kept.
  GenerationRequest long_prompt = greedy(std::vector<int32_t>(1000, 3), 5);
  long_prompt.cancelled = &cancelled;
  cancelled = false;
  ASSERT_TRUE(lane.submit(long_prompt, {.on_finish = [&](const GenerationResult& r) { first = r; }}).ok());
  lane.step();
  cancelled = true;
  EXPECT_FALSE(lane.step());
  EXPECT_EQ(first->reason, FinishReason::cancelled);
  EXPECT_TRUE(first->tokens.empty());
  EXPECT_EQ(first->logits_hash, "");
  expect_true_record(3);
}

TEST(Generation, CancellingReleasesHeldText) {
  const text::Tokenizer tokenizer = byte_tokenizer({"STO"});
  const int64_t vocabulary = tokenizer.vocab_size();
  FakeEngine engine(vocabulary, 1000, 16, scripted_model(vocabulary, 1, {256, 256}));
  sched::Scheduler lane(engine, {tokenizer, {}}, {});
  std::atomic<bool> cancelled{false};
  GenerationRequest request = greedy({1}, 50);
  request.stop = {"STOP"};
  request.cancelled = &cancelled;
  std::string shown;
  std::optional<GenerationResult> result;
  ASSERT_TRUE(lane.submit(request, {.on_token = [&](const TokenEvent& e) { shown += e.text; },
                                    .on_finish = [&](const GenerationResult& r) { result = r; }})
                  .ok());
  lane.step();
  EXPECT_EQ(shown, "");
  cancelled = true;
  lane.step();
  EXPECT_EQ(shown, "STO");
  EXPECT_EQ(result->text, "STO");
}

TEST(Generation, LogitsThatAreNotFiniteEndOneRequestOnly) {
  const auto model = [](std::span<const int32_t> tokens) {
    auto logits = hashing_model(kVocabulary)(tokens);
    if (tokens.front() == 13 && tokens.size() == 4) logits[5] = std::nanf("");
    return logits;
  };
  FakeEngine engine(kVocabulary, 4096, 8, model);
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  std::optional<GenerationResult> poisoned, healthy;
  ASSERT_TRUE(
      lane.submit(greedy({13, 1}, 9), {.on_finish = [&](const GenerationResult& r) { poisoned = r; }}).ok());
  ASSERT_TRUE(
      lane.submit(greedy({14, 1}, 9), {.on_finish = [&](const GenerationResult& r) { healthy = r; }}).ok());
  while (lane.step()) {
  }
  EXPECT_EQ(poisoned->reason, FinishReason::error);
  EXPECT_EQ(poisoned->error->code, base::ErrorCode::internal);
  EXPECT_EQ(poisoned->tokens.size(), 2u);
  EXPECT_EQ(healthy->tokens, run_alone(greedy({14, 1}, 9)).tokens);
  EXPECT_TRUE(engine.sequences.empty());
}

TEST(Generation, AFullStoreDelaysTheLastRequestOnly) {
  FakeEngine engine(kVocabulary, 4096, 8, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  std::vector<GenerationResult> results;
  const auto keep = [&](const GenerationResult& r) { results.push_back(r); };
  ASSERT_TRUE(lane.submit(greedy({1}, 9), {.on_finish = keep}).ok());
  ASSERT_TRUE(lane.submit(greedy({2}, 9), {.on_finish = keep}).ok());
  engine.fail_at_step = 4;
  engine.failure = {base::ErrorCode::out_of_memory, "the block store is full", "cache", ""};
  while (lane.step()) {
  }
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(lane.stats().preemptions, 1);
  EXPECT_EQ(results[0].tokens, run_alone(greedy({1}, 9)).tokens);
  EXPECT_EQ(results[1].tokens, run_alone(greedy({2}, 9)).tokens);

  results.clear();
  engine.fail_at_step = engine.steps + 2;
  engine.failure = {base::ErrorCode::internal, "broken", "engine", ""};
  ASSERT_TRUE(lane.submit(greedy({1}, 9), {.on_finish = keep}).ok());
  ASSERT_TRUE(lane.submit(greedy({2}, 9), {.on_finish = keep}).ok());
  while (lane.step()) {
  }
  ASSERT_EQ(results.size(), 2u);
  for (const auto& result : results) EXPECT_EQ(result.reason, FinishReason::error);
  EXPECT_TRUE(engine.sequences.empty());
}

TEST(Generation, TheHashIsThatOfTheLastLogits) {
  const GenerationResult result = run_alone(greedy({3, 4}, 3));
  std::vector<int32_t> history = {3, 4, result.tokens[0], result.tokens[1]};
  const auto logits = hashing_model(kVocabulary)(history);
  EXPECT_EQ(result.logits_hash,
            fmt::format("{:016x}", XXH64(logits.data(), logits.size() * sizeof(float), 0)));
}

}  // namespace
}  // namespace rafter::decode

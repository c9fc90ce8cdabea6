#include <gtest/gtest.h>

#include "tests/support/lane_checks.h"

namespace rafter::sched {
namespace {

using namespace decode;  // NOLINT: the checks and fakes of generation

LanePlan random_plan(unsigned seed) {
  std::mt19937 random(seed * 7 + 1);
  LanePlan plan;
  plan.seed = seed;
  plan.batch = 1 + static_cast<int64_t>(random() % 8);
  plan.store = random() % 2 == 0 ? 1 << 20 : 1000 + static_cast<int64_t>(random() % 1500);
  plan.prompt_cache = random() % 3 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 4000);
  plan.sequences = random() % 2 == 0 ? 64 : static_cast<size_t>(1 + random() % 10);
  plan.failures = random() % 4 == 0;
  plan.cancels = random() % 4 != 0;
  plan.requests = 12;
  return plan;
}

TEST(Scheduler, RandomSchedules) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    TimedEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
    const std::string faults = lane_faults(engine, random_plan(seed));
    ASSERT_EQ(faults, "") << "seed " << seed;
  }
}

struct Story {
  std::optional<GenerationResult> result;
  std::vector<std::pair<int64_t, int64_t>> progress;
  int tokens = 0;
  GenerationListener listener() {
    GenerationListener listener;
    listener.on_progress = [this](int64_t before, int64_t done) { progress.emplace_back(before, done); };
    listener.on_token = [this](const TokenEvent&) { ++tokens; };
    listener.on_finish = [this](const GenerationResult& r) { result = r; };
    return listener;
  }
};

std::vector<int32_t> filled(size_t count, int32_t token) { return std::vector<int32_t>(count, token); }

TEST(Scheduler, AStreamKeepsItsPaceBesideALongPrompt) {
  TimedEngine engine(kVocabulary, 100000, 512, hashing_model(kVocabulary));
  engine.base_seconds = 0.03;
  engine.row_seconds = 0.004;  // a full step of prompt rows takes two seconds
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.now = [&] { return engine.now; }});
  Story stream, prompt;
  double last = -1, longest = 0;
  GenerationListener listener = stream.listener();
  listener.on_token = [&](const TokenEvent&) {
    if (last >= 0) longest = std::max(longest, engine.now - last);
    last = engine.now;
  };
  ASSERT_TRUE(lane.submit(greedy({1, 2}, 1000), listener).ok());
  for (int i = 0; i < 20; ++i) lane.step();
  ASSERT_TRUE(lane.submit(greedy(filled(5000, 3), 5), prompt.listener()).ok());
  int steps = 0;
  while (!prompt.result) lane.step(), ++steps;
  EXPECT_LE(longest, 0.25);
  EXPECT_LE(steps, 5000 / 12);  // and the prompt is not starved: a fair part of the gap is used
}

TEST(Scheduler, AShortPromptOvertakesALongOneThatGoesOn) {
  TimedEngine engine(kVocabulary, 100000, 64, hashing_model(kVocabulary));
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.now = [&] { return engine.now; }});
  Story first, second;
  ASSERT_TRUE(lane.submit(greedy(filled(6400, 3), 1), first.listener()).ok());
  lane.step();
  ASSERT_TRUE(lane.submit(greedy(filled(90, 4), 1), second.listener()).ok());
  int steps = 0;
  while (!second.result) lane.step(), ++steps;
  EXPECT_LE(steps, 3);
  while (!first.result) lane.step(), ++steps;
  EXPECT_LE(steps, 102);  // every row was used
}

TEST(Scheduler, TheQueueIsFirstComeFirstServedAndFull) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.batch = 2, .queue = 3});
  std::vector<Story> runs(6);
  for (int i = 0; i < 5; ++i) {
    if (i == 2) lane.step();
    ASSERT_TRUE(lane.submit(greedy({i + 1}, 4), runs[static_cast<size_t>(i)].listener()).ok()) << i;
  }
  const auto refused = lane.submit(greedy({9}, 4), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::busy);
  EXPECT_NE(refused.error().what.find("3 wait"), std::string::npos);
  lane.step();
  EXPECT_EQ(runs[4].progress.front(), std::pair(int64_t{3}, int64_t{0}));
  while (lane.step()) {
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(runs[static_cast<size_t>(i)].result) << i;
  EXPECT_EQ(runs[4].progress.back(), std::pair(int64_t{0}, int64_t{0}));
}

TEST(Scheduler, WhatFitsAloneWaitsUntilItFits) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  engine.total_positions = engine.store_positions = 1000;
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 1 << 20});
  Story first, second;
  ASSERT_TRUE(lane.submit(greedy(filled(500, 1), 20), first.listener()).ok());
  ASSERT_TRUE(lane.submit(greedy(filled(600, 2), 20), second.listener()).ok());
  while (!first.result) {
    lane.step();
    EXPECT_LE(lane.stats().active, 1);
  }
  EXPECT_EQ(second.tokens, 0);
  while (lane.step()) {
  }
  EXPECT_EQ(second.result->tokens.size(), 20u);  // the first one's prefix gave way
  EXPECT_EQ(lane.stats().preemptions, 0);
  EXPECT_EQ(lane.stats().kept_prefixes, 1);
}

TEST(Scheduler, AnAnswerEndsWhereTheRoomDoes) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  engine.total_positions = engine.store_positions = 700;
  Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  GenerationRequest request = greedy(filled(100, 1), 64000);
  request.overflow = GenerationRequest::Overflow::finish;
  const auto result = generate_blocking(lane, request);
  EXPECT_EQ(result->reason, FinishReason::length);
  EXPECT_EQ(result->tokens.size(), 600u);
  request.prompt = filled(445, 1);  // one more than leaves the reserve
  const auto refused = generate_blocking(lane, request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::out_of_memory);
  request.max_tokens = 200;
  EXPECT_EQ(generate_blocking(lane, request)->tokens.size(), 200u);
}

TEST(Scheduler, StreamsThatOutgrowTheMemoryTakeTurns) {
  FakeEngine engine(kVocabulary, 8192, 64, hashing_model(kVocabulary));
  engine.total_positions = 5000;
  engine.store_positions = 5000;
  Scheduler lane(engine, {byte_tokenizer(), {}}, {});
  Story runs[3];
  const auto request_of = [](int32_t i) {
    GenerationRequest request = greedy({i + 1}, 3000);
    request.ignore_end = true;
    return request;
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(lane.submit(request_of(i), runs[i].listener()).ok());
  while (lane.step()) {
  }
  EXPECT_GT(lane.stats().preemptions, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runs[i].result->tokens, run_alone(request_of(i)).tokens);
}

TEST(Scheduler, ASideRequestDoesNotPushOutTheConversation) {
  FakeEngine engine(kVocabulary, 100000, 512, hashing_model(kVocabulary));
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 10200});
  std::vector<int32_t> conversation = filled(9000, 1);
  const auto ask = [&](std::vector<int32_t> prompt) {
    return generate_blocking(lane, greedy(prompt, 10)).value();
  };
  const GenerationResult first = ask(conversation);
  for (int i = 0; i < 5; ++i)
    ask(filled(1000, 20 + i));  // titles and summaries, more than what fits beside it
  conversation.insert(conversation.end(), first.tokens.begin(), first.tokens.end());
  conversation.push_back(5);
  EXPECT_EQ(ask(conversation).cached_tokens, 9009);
  // But one that is over goes in the end.
  for (int i = 0; i < 60; ++i) ask(filled(1000, 100 + i));
  EXPECT_EQ(ask(conversation).cached_tokens, 0);
}

TEST(Scheduler, RequestsUnderWayShareTheirPrefix) {
  FakeEngine engine(kVocabulary, 100000, 64, hashing_model(kVocabulary));
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 0});
  std::vector<Story> runs(5);
  for (int i = 0; i < 5; ++i) {
    std::vector<int32_t> prompt = filled(1000, 1);
    prompt.push_back(10 + i);
    ASSERT_TRUE(lane.submit(greedy(prompt, 300), runs[static_cast<size_t>(i)].listener()).ok());
  }
  Story other;  // needs nothing of them and does not wait for them
  ASSERT_TRUE(lane.submit(greedy({7}, 3), other.listener()).ok());
  lane.step();
  EXPECT_EQ(other.tokens, 1);
  while (lane.step()) {
  }
  EXPECT_LE(lane.stats().computed_prompt_tokens, 1000 + 5 + 1 + 4 * 64);  // nobody waits for less
  for (int i = 1; i < 5; ++i) EXPECT_GE(runs[static_cast<size_t>(i)].result->cached_tokens, 1000 - 64);
}

TEST(Scheduler, SpacesAreNeverCrossed) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 1 << 20});
  const auto cached = [&](const char* space) {
    GenerationRequest request = greedy(filled(100, 3), 2);
    request.cache_space = space;
    return generate_blocking(lane, request)->cached_tokens;
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached("lora"), 0);
  EXPECT_EQ(cached(""), 99);
  EXPECT_EQ(cached("lora"), 99);
  EXPECT_EQ(cached("lora+other"), 0);
}

TEST(PrefixTree, FindsTheLongestPrefixAsALoopDoes) {
  std::mt19937 random(3);
  PrefixTree tree;
  const auto word = [&] {
    std::vector<int32_t> tokens;
    for (size_t n = random() % 9; n > 0; --n) tokens.push_back(static_cast<int32_t>(random() % 2));
    return tokens;
  };
  for (int i = 0; i < 200; ++i) tree.insert({i % 3 == 0 ? "b" : "a", word(), i, true, 0});
  for (int i = 0; i < 300; ++i) {
    const std::vector<int32_t> prompt = word();
    std::vector<int64_t> expected, visited;
    for (const auto& leaf : tree.leaves()) {
      const int64_t shared = common_prefix(leaf.tokens, prompt);
      if (leaf.space == "a" && shared > 0) expected.push_back(shared);
    }
    std::sort(expected.rbegin(), expected.rend());
    tree.visit_matches("a", prompt, [&](PrefixTree::Handle leaf, int64_t shared) {
      EXPECT_EQ(leaf->space, "a");
      EXPECT_EQ(shared, common_prefix(leaf->tokens, prompt));
      visited.push_back(shared);
      return true;
    });
    ASSERT_EQ(visited, expected);
  }
}

}  // namespace
}  // namespace rafter::sched

// The lane on real checkpoints of every cache kind: a request's tokens do not depend on its company, and a
// long conversation computes little more than what is new in it.
#include <random>

#include <gtest/gtest.h>

#include "tests/models/engine_fixture.h"
#include "tests/support/agent_conversation.h"
#include "tests/support/fake_engine.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using decode::GenerationRequest;
using decode::GenerationResult;

constexpr int32_t kVocabulary = 320;  // of the tiny checkpoints
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Full attention, sliding windows, recurrent layers; dense and mixtures.
const char* const kCases[] = {"llama-a/hf-bf16",        "qwen3-tiny/mlx4-g64",   "gemma3-tiny/mlx4-g32",
                              "gemma4-e/mlx-mixed-g32", "gemma4-dense/mlx4-g32", "qwen3_5-tiny/mlx4-g32",
                              "qwen3_5-moe/mlx8-g32"};

class Lane : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const OracleCase* found = find_oracle_case(GetParam());
    if (found == nullptr) GTEST_SKIP() << "no oracle data for " << GetParam() << ": run make oracle";
    path_ = copy_with_long_context(found->path, folder_);
  }

  std::unique_ptr<engine::Engine> open(int sequences, int64_t cache_bytes = int64_t{1} << 30) const {
    engine::EngineOptions options;
    options.threads = 1;
    options.row_capacity = 128;
    options.max_sequences = sequences;
    options.context_limit = 16384;
    options.cache_bytes = cache_bytes;
    return open_engine(path_, options);
  }

  static std::vector<int32_t> random_tokens(std::mt19937& random, size_t count) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocabulary);
    return tokens;
  }

  // Prompts that share prefixes of several lengths.
  static GenerationRequest varied_request(int i) {
    std::mt19937 random(static_cast<unsigned>(i) + 9);
    std::mt19937 family(static_cast<unsigned>(i % 3));
    GenerationRequest request;
    request.prompt = random_tokens(family, static_cast<size_t>(70 * (i % 3)));
    request.boundaries = {static_cast<int64_t>(request.prompt.size())};
    const auto own = random_tokens(random, 1 + random() % 90);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    request.sampling.top_p = i % 4 == 1 ? 0.9f : 0;
    request.sampling.repetition.strength = i % 5 == 0 ? 1.2f : 0;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.max_tokens = 5 + static_cast<int64_t>(random() % 40);
    request.overflow = GenerationRequest::Overflow::finish;
    request.ignore_end = true;
    return request;
  }

  TempFolder folder_;
  std::string path_;
};

TEST_P(Lane, TheSameTokensAloneAndInAnyCompany) {
  constexpr int kRequests = 18;
  std::vector<GenerationResult> alone;
  {
    const auto engine = open(1);
    decode::EngineAdapter adapter(*engine);
    sched::Scheduler lane(adapter, {decode::byte_tokenizer(), {}}, {.batch = 1});
    for (int i = 0; i < kRequests; ++i)
      alone.push_back(sched::generate_blocking(lane, varied_request(i)).value());
  }
  struct Company {
    int64_t batch, chunk, prompt_cache;
    int sequences;
  };
  for (const Company& company :
       {Company{4, 0, 0, 4}, Company{16, 0, kUnlimited, 40}, Company{6, 17, 200000, 7}}) {
    const auto engine = open(company.sequences);
    decode::EngineAdapter adapter(*engine);
    sched::Scheduler lane(
        adapter, {decode::byte_tokenizer(), {}},
        {.batch = company.batch, .prefill_chunk = company.chunk, .prompt_cache_bytes = company.prompt_cache});
    std::mt19937 random(static_cast<unsigned>(company.batch));
    int submitted = 0, finished = 0;
    while (submitted < kRequests || !lane.idle()) {
      while (submitted < kRequests && (lane.idle() || random() % 3 == 0)) {
        const auto i = static_cast<size_t>(submitted++);
        decode::GenerationListener listener;
        listener.on_finish = [&, i](const GenerationResult& result) {
          ++finished;
          EXPECT_EQ(result.tokens, alone[i].tokens) << "request " << i << ", batch " << company.batch;
          EXPECT_EQ(result.logits_hash, alone[i].logits_hash)
              << "request " << i << ", batch " << company.batch;
        };
        ASSERT_TRUE(lane.submit(varied_request(static_cast<int>(i)), listener).ok());
      }
      lane.step();
    }
    EXPECT_EQ(finished, kRequests);
    if (company.prompt_cache == 0) {
      EXPECT_EQ(engine->cache_bytes_in_use(), 0);
    }
  }
}

TEST_P(Lane, AnAgentsConversationComputesLittleMoreThanWhatIsNew) {
  const auto engine = open(16), fresh_engine = open(1);
  decode::EngineAdapter adapter(*engine), fresh_adapter(*fresh_engine);
  sched::Scheduler fresh(fresh_adapter, {decode::byte_tokenizer(), {}}, {});
  const ReplayFigures figures = replay_conversation(
      adapter, [&](int turn, const GenerationRequest& request, const GenerationResult& result) {
        if (turn % 13 != 6) return;
        EXPECT_EQ(result.tokens, sched::generate_blocking(fresh, request)->tokens) << "turn " << turn;
      });
  printf("%s: %d turns, %ld prompt tokens, %ld new, %ld computed: %.3f times\n", GetParam(), figures.turns,
         static_cast<long>(figures.prompt), static_cast<long>(figures.fresh),
         static_cast<long>(figures.computed), figures.ratio());
  EXPECT_LE(figures.ratio(), 1.1);
  EXPECT_GE(figures.ratio(), 1.0);
}

// Memory for two conversations and a half: prefixes give way, streams take turns, nothing changes.
TEST_P(Lane, TheSameTokensWhenMemoryIsShort) {
  int64_t bytes = int64_t{1} << 30;
  {
    const auto engine = open(1);
    decode::EngineAdapter adapter(*engine);
    sched::Scheduler lane(adapter, {decode::byte_tokenizer(), {}}, {.prompt_cache_bytes = kUnlimited});
    GenerationRequest request = varied_request(2);
    request.max_tokens = 1200;
    ASSERT_TRUE(sched::generate_blocking(lane, request).ok());
    bytes = engine->cache_bytes_in_use() * 5 / 2;
  }
  const auto engine = open(8, bytes);
  const auto roomy = open(1);
  decode::EngineAdapter adapter(*engine), roomy_adapter(*roomy);
  sched::Scheduler lane(adapter, {decode::byte_tokenizer(), {}}, {.prompt_cache_bytes = kUnlimited});
  sched::Scheduler alone(roomy_adapter, {decode::byte_tokenizer(), {}}, {.batch = 1});
  std::vector<GenerationResult> results(6);
  for (size_t i = 0; i < results.size(); ++i) {
    GenerationRequest request = varied_request(static_cast<int>(i));
    request.max_tokens = 300;
    decode::GenerationListener listener;
    listener.on_finish = [&results, i](const GenerationResult& result) { results[i] = result; };
    ASSERT_TRUE(lane.submit(request, listener).ok());
  }
  while (lane.step()) ASSERT_LE(engine->cache_bytes_in_use(), bytes);
  for (size_t i = 0; i < results.size(); ++i) {
    GenerationRequest request = varied_request(static_cast<int>(i));
    request.max_tokens = 300;
    ASSERT_FALSE(results[i].error) << results[i].error->message();
    const GenerationResult expected = sched::generate_blocking(alone, request).value();
    const size_t count = results[i].tokens.size();
    ASSERT_LE(count, expected.tokens.size());
    EXPECT_TRUE(std::equal(results[i].tokens.begin(), results[i].tokens.end(), expected.tokens.begin())) << i;
    EXPECT_TRUE(results[i].reason == decode::FinishReason::length) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Lane, ::testing::ValuesIn(kCases), [](const auto& checkpoint) {
  std::string name = checkpoint.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace rafter::testing

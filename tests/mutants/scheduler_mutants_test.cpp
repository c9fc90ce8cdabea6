// Planted faults below the lane: the checkers of its schedules and of its prefix cache must see them.
#include <gtest/gtest.h>

#include "tests/models/engine_fixture.h"
#include "tests/support/agent_conversation.h"
#include "tests/support/lane_checks.h"
#include "tests/support/restart_checks.h"

namespace rafter::decode {
namespace {

// What the checkers say of twenty schedules.
template <typename Engine>
std::string faults_of(LanePlan plan = {}) {
  std::string faults;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Engine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
    plan.seed = seed;
    faults += lane_faults(engine, plan);
    if (!faults.empty()) break;
  }
  return faults;
}

#define EXPECT_FAULT(faults, fault) EXPECT_NE((faults).find(fault), std::string::npos) << (faults)

const LanePlan kWithCache = {.prompt_cache = 100000};
const LanePlan kSmall = {.store = 900, .prompt_cache = 100000};

TEST(SchedulerMutants, NoFaultIsSeenWhereThereIsNone) {
  EXPECT_EQ(faults_of<TimedEngine>(), "");
  EXPECT_EQ(faults_of<TimedEngine>(kWithCache), "");
  EXPECT_EQ(faults_of<TimedEngine>(kSmall), "");
}

class SpoiledFork final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  base::Result<int32_t> fork_sequence(int32_t sequence, int64_t length) override {
    auto fork = TimedEngine::fork_sequence(sequence, length);
    if (fork.ok()) sequences.at(*fork).front() ^= 1;
    return fork;
  }
};
TEST(SchedulerMutants, AForkThatDiffers) {
  EXPECT_FAULT(faults_of<SpoiledFork>(kWithCache), "tokens of request");
}

class ForgottenCut final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  void truncate(int32_t sequence, int64_t length) override {
    TimedEngine::truncate(sequence, length);
    if (length > 0) sequences.at(sequence).back() ^= 1;
  }
};
TEST(SchedulerMutants, ACutThatDiffers) {
  LanePlan plan = kWithCache;
  plan.sequences = 1;
  plan.batch = 1;
  EXPECT_FAULT(faults_of<ForgottenCut>(plan), "tokens of request");
}

class SwappedLogits final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  std::span<const float> logits(int i) const override { return TimedEngine::logits(i == 1 ? 0 : i); }
};
TEST(SchedulerMutants, ANeighboursLogits) { EXPECT_FAULT(faults_of<SwappedLogits>(), "tokens of request"); }

class BoundlessStore final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  bool has_room(std::span<const engine::Row>) const override { return true; }
};
TEST(SchedulerMutants, MoreMemoryThanThereIs) { EXPECT_FAULT(faults_of<BoundlessStore>(kSmall), "memory"); }

class ForgetfulRelease final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  void release_sequence(int32_t sequence) override {
    if (sequence % 5 != 0) TimedEngine::release_sequence(sequence);
  }
};
TEST(SchedulerMutants, SequencesThatStay) { EXPECT_FAULT(faults_of<ForgetfulRelease>(), "leaked"); }

// Prompt rows that cost what nothing before let expect.
class SuddenlySlow final : public TimedEngine {
 public:
  using TimedEngine::TimedEngine;
  base::Status step(std::span<const engine::Row> rows) override {
    if (rows.size() > 20 && steps % 5 == 0) now += 0.3;
    return TimedEngine::step(rows);
  }
};
TEST(SchedulerMutants, AStreamThatStalls) { EXPECT_FAULT(faults_of<SuddenlySlow>(), "gap"); }

// Files that hold something else than what was saved.
class LoadsAnOlderState : public FakeEngine {
 public:
  using FakeEngine::FakeEngine;
  base::Result<engine::Engine::LoadedSequence> load_sequence_blocking(const std::string& path) override {
    RAFTER_ASSIGN(auto loaded, FakeEngine::load_sequence_blocking(path));
    sequences.at(loaded.sequence)[3] ^= 1;
    return loaded;
  }
};
class SavesNothing : public FakeEngine {
 public:
  using FakeEngine::FakeEngine;
  base::Status save_sequence_blocking(int32_t, std::span<const int32_t>, const std::string&,
                                      const std::string&) const override {
    return {};
  }
};
class KnowsEveryModel : public FakeEngine {  // its own files seem to be another's
 public:
  using FakeEngine::FakeEngine;
  cache::SequenceOrigin sequence_origin() const override { return {100 + ++asked_, "bf16"}; }

 private:
  mutable uint64_t asked_ = 0;
};

TEST(SchedulerMutants, ARestartThatForgetsOrRemembersWrongly) {
  ASSERT_EQ(restart_faults<FakeEngine>(), "");
  EXPECT_FAULT(restart_faults<LoadsAnOlderState>(), "other tokens");
  EXPECT_FAULT(restart_faults<SavesNothing>(), "files");
  EXPECT_FAULT(restart_faults<KnowsEveryModel>(), "were taken");
}

}  // namespace
}  // namespace rafter::decode

namespace rafter::testing {
namespace {

// Where a conversation branches, nothing is retained.
class ForgetfulEngine final : public decode::StepEngine {
 public:
  explicit ForgetfulEngine(engine::Engine& engine) : inner_(engine) {}
  int64_t vocabulary_size() const override { return inner_.vocabulary_size(); }
  int64_t context_limit() const override { return inner_.context_limit(); }
  int row_capacity() const override { return inner_.row_capacity(); }
  base::Result<int32_t> create_sequence() override { return inner_.create_sequence(); }
  void release_sequence(int32_t sequence) override { inner_.release_sequence(sequence); }
  int64_t length(int32_t sequence) const override { return inner_.length(sequence); }
  bool reenters_anywhere() const override { return false; }
  int64_t reentry_position(int32_t s, int64_t length) const override {
    return inner_.reentry_position(s, length);
  }
  bool take_snapshot(int32_t) override { return true; }
  void truncate(int32_t sequence, int64_t length) override { inner_.truncate(sequence, length); }
  base::Result<int32_t> fork_sequence(int32_t s, int64_t length) override {
    return inner_.fork_sequence(s, length);
  }
  base::Status check_fits(int64_t positions) const override { return inner_.check_fits(positions); }
  bool has_room(std::span<const engine::Row> rows) const override { return inner_.has_room(rows); }
  bool can_hold(std::span<const engine::Growth> sequences) const override {
    return inner_.can_hold(sequences);
  }
  int64_t bytes_held(std::span<const int32_t> sequences) const override {
    return inner_.bytes_held(sequences);
  }
  base::Status step(std::span<const engine::Row> rows) override { return inner_.step(rows); }
  std::span<const float> logits(int i) const override { return inner_.logits(i); }

 private:
  decode::EngineAdapter inner_;
};

TEST(SchedulerMutants, AConversationComputedAgain) {
  const OracleCase* found = find_oracle_case("qwen3_5-tiny/mlx4-g32");
  if (found == nullptr) GTEST_SKIP() << "no oracle data: run make oracle";
  TempFolder folder;
  engine::EngineOptions options;
  options.threads = 1;
  options.row_capacity = 128;
  options.max_sequences = 16;
  options.context_limit = 16384;
  options.cache_bytes = int64_t{1} << 30;
  const auto engine = open_engine(copy_with_long_context(found->path, folder), options);
  ForgetfulEngine forgetful(*engine);
  EXPECT_GT(replay_conversation(forgetful).ratio(), 1.1);
}

}  // namespace
}  // namespace rafter::testing

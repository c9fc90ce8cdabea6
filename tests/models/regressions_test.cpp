// Faults that other systems shipped, each as the situation in which it showed. Models are synthetic: what is
// compared is this program with itself, bit for bit, along two ways that must give the same.
#include <algorithm>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "decode/random.h"
#include "engine/engine.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Row;

// One synthetic model and engines over it.
class Fixture {
 public:
  explicit Fixture(const std::string& shape) { path_ = write_synth_model(shape, "mlx8", folder_.path()); }

  std::unique_ptr<Engine> open(int64_t context, int max_sequences = 2) const {
    EngineOptions options;
    options.context_limit = context;
    options.max_sequences = max_sequences;
    options.threads = 1;
    options.row_capacity = 64;
    auto checkpoint = std::make_shared<const format::Checkpoint>(format::Checkpoint::open(path_).value());
    return Engine::open(std::move(checkpoint), options).value();
  }

 private:
  TempFolder folder_;
  std::string path_;
};

int32_t token_at(int64_t position) { return static_cast<int32_t>(3 + position * 37 % 400); }

// Rows for positions [begin, end) of a sequence; the last one's logits are wanted.
std::vector<Row> rows_of(int32_t sequence, int64_t begin, int64_t end) {
  std::vector<Row> rows;
  for (int64_t p = begin; p < end; ++p)
    rows.push_back({token_at(p), static_cast<int32_t>(p), sequence, p + 1 == end, 0});
  return rows;
}

// Feeds positions [begin, end) in steps of at most `chunk` rows; the last one's logits.
std::vector<float> feed(Engine& engine, int32_t sequence, int64_t begin, int64_t end, int64_t chunk) {
  for (int64_t at = begin; at < end; at += chunk) {
    const auto status = engine.step(rows_of(sequence, at, std::min(at + chunk, end)));
    EXPECT_TRUE(status.ok()) << status.error().message();
  }
  const auto logits = engine.logits(0);
  return {logits.begin(), logits.end()};
}

// A step's plan is bound once, at the first length that it runs at. Rows past any bound of that moment (a
// block of 64, a split of 256) must be attended nevertheless: the newest one decides the logits, and decoding
// one row at a time gives what one pass over everything gives.
TEST(Regressions, ALoopCountFixedWhenAGraphWasCapturedSoThatTheNewestCachedRowsAreNeverAttended) {
  for (const char* shape : {"llama3-tiny", "gemma4-e4b-tiny", "qwen3.5-4b-tiny"}) {
    const Fixture fixture(shape);
    const auto engine = fixture.open(640);
    const int32_t sequence = engine->create_sequence().value();
    feed(*engine, sequence, 0, 1, 1);  // the plan of one row is bound here, at length 1
    int64_t at = 1;
    for (int64_t length : {64, 65, 256, 257, 330}) {
      const std::vector<float> decoded = feed(*engine, sequence, at, length, 1);
      at = length;
      const auto fresh = fixture.open(640);
      const int32_t other = fresh->create_sequence().value();
      EXPECT_EQ(decoded, feed(*fresh, other, 0, length, 64)) << shape << " at " << length;
    }
    // Another token just before the last one, cached by a step of its own, must show.
    engine->truncate(sequence, at - 1);
    Row last = rows_of(sequence, at - 1, at)[0];
    ASSERT_TRUE(engine->step(std::vector{last}).ok());
    const std::vector<float> before(engine->logits(0).begin(), engine->logits(0).end());
    engine->truncate(sequence, at - 1);
    Row changed = last;
    changed.token = 5;
    last.position++;
    ASSERT_TRUE(engine->step(std::vector{changed}).ok());
    ASSERT_TRUE(engine->step(std::vector{last}).ok());
    EXPECT_NE(before, std::vector<float>(engine->logits(0).begin(), engine->logits(0).end())) << shape;
  }
}

// A step that fails half way has appended nothing: the sequences that were already extended go back, and the
// step that is tried again (without the one that did not fit) writes each row once.
TEST(Regressions, AMidStepDoubleWriteOfTheCacheWhenACompiledSegmentFailsOver) {
  for (const char* shape : {"llama3-tiny", "gemma4-e2b-tiny", "qwen3.5-4b-tiny"}) {
    const Fixture fixture(shape);
    const auto engine = fixture.open(128);
    const int32_t first = engine->create_sequence().value(), full = engine->create_sequence().value();
    feed(*engine, first, 0, 70, 64);
    feed(*engine, full, 0, 128, 64);
    // Both in one step: there is no room for the second's row.
    std::vector<Row> rows = rows_of(first, 70, 74);
    rows.push_back({7, 128, full, true, 0});
    ASSERT_FALSE(engine->step(rows).ok());
    EXPECT_EQ(engine->length(first), 70);
    EXPECT_EQ(engine->length(full), 128);
    const std::vector<float> again = feed(*engine, first, 70, 74, 64);
    EXPECT_EQ(engine->length(first), 74);

    const auto fresh = fixture.open(128);
    const int32_t other = fresh->create_sequence().value();
    EXPECT_EQ(again, feed(*fresh, other, 0, 74, 64)) << shape;
    EXPECT_EQ(feed(*engine, first, 74, 100, 1), feed(*fresh, other, 74, 100, 1)) << shape;
    // The same rows twice, as when a second path takes over from a first that has already written.
    const std::vector<float> once(engine->logits(0).begin(), engine->logits(0).end());
    ASSERT_EQ(engine->reentry_position(first, 99), 99);
    engine->truncate(first, 99);
    EXPECT_EQ(feed(*engine, first, 99, 100, 1), once) << shape;
  }
}

// Requests that arrive in the same millisecond, from any number of threads, get seeds of their own.
TEST(Regressions, EqualSeedsForRequestsThatArriveInTheSameMillisecond) {
  constexpr size_t kThreads = 4, kEach = 20000;
  std::vector<std::vector<uint64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (auto& seeds : drawn) {
    threads.emplace_back([&seeds] {
      for (size_t i = 0; i < kEach; ++i) seeds.push_back(decode::fresh_seed());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all, first_draws;
  for (const auto& seeds : drawn) {
    for (uint64_t seed : seeds) {
      all.insert(seed);
      first_draws.insert(decode::step_key(seed, 0));
    }
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
  EXPECT_EQ(first_draws.size(), kThreads * kEach);
}

// Rows that a verifier rejects past the window: the window before them must still be there, whatever the step
// overwrote, step after step.
TEST(Regressions, ARingTrimmedPastItsWindow) {
  for (const char* shape : {"gemma4-e4b-tiny", "gemma4-12b-tiny"}) {  // a window of 64
    const Fixture fixture(shape);
    const auto engine = fixture.open(512), plain = fixture.open(512);
    const int32_t sequence = engine->create_sequence().value(), other = plain->create_sequence().value();
    feed(*engine, sequence, 0, 200, 64);
    feed(*plain, other, 0, 200, 64);
    int64_t length = 200;
    for (int round = 0; round < 24; ++round) {
      const int64_t drafted = 1 + round % 17, accepted = round % drafted + 1;
      std::vector<Row> rows = rows_of(sequence, length, length + drafted);
      for (int64_t i = accepted; i < drafted; ++i)
        rows[static_cast<size_t>(i)].token = 9;  // the rejected ones
      ASSERT_TRUE(engine->step(rows).ok());
      length += accepted;
      ASSERT_EQ(engine->reentry_position(sequence, length), length);
      engine->truncate(sequence, length);
      EXPECT_EQ(feed(*engine, sequence, length, length + 1, 1),
                feed(*plain, other, plain->length(other), length + 1, 1))
          << shape << ", round " << round;
      ++length;
    }
  }
}

// Positions before visible_from hold padding: whatever their tokens, the rows after them are the same bits.
TEST(Regressions, AMaskedPadTokenAttended) {
  for (const char* shape : {"llama3-tiny", "qwen3-tiny", "gemma4-12b-tiny"}) {
    const Fixture fixture(shape);
    std::vector<std::vector<float>> results;
    for (const int32_t pad : {0, 1, 399}) {
      const auto engine = fixture.open(256);
      const int32_t sequence = engine->create_sequence().value();
      constexpr int32_t kPads = 70;
      std::vector<Row> rows;
      for (int32_t p = 0; p < kPads; ++p) rows.push_back({pad, p, sequence, false, 0});
      for (size_t at = 0; at < rows.size(); at += 35)
        ASSERT_TRUE(engine->step(std::span(rows).subspan(at, 35)).ok());
      rows.clear();
      for (int32_t p = kPads; p < kPads + 40; ++p)
        rows.push_back({token_at(p), p, sequence, p == kPads + 39, kPads});
      ASSERT_TRUE(engine->step(rows).ok());
      ASSERT_TRUE(engine->step(std::vector<Row>{{5, kPads + 40, sequence, true, kPads}}).ok());
      results.emplace_back(engine->logits(0).begin(), engine->logits(0).end());
      // Seen, they would show.
      engine->truncate(sequence, kPads + 40);
      ASSERT_TRUE(engine->step(std::vector<Row>{{5, kPads + 40, sequence, true, kPads - 1}}).ok());
      EXPECT_NE(results.back(), std::vector<float>(engine->logits(0).begin(), engine->logits(0).end()))
          << shape;
    }
    EXPECT_EQ(results[0], results[1]) << shape;
    EXPECT_EQ(results[0], results[2]) << shape;
  }
}

}  // namespace
}  // namespace rafter::testing

// Recurrent states: rollback within the pending rows, snapshots within their budget, forks.
#include "cache/recurrent_store.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::cache {
namespace {

using kernels::kReplayRows;
using kernels::RecurrentShape;

constexpr RecurrentShape kShape = {2, 4, 8, 20, 4, false};

// Positions of one sequence and what the delta rule makes of them: tokens choose the inputs, so that the
// whole history decides each output.
class Sequences {
 public:
  explicit Sequences(int64_t snapshot_bytes)
      : store(RecurrentStore::create({kShape}, 8, snapshot_bytes).value()) {
    team_.set_scratch(table_.gated_delta_scratch({nullptr, {kShape}}));
  }

  // Appends `tokens` in one step; returns the outputs.
  std::vector<float> append(int32_t sequence, const std::vector<int>& tokens) {
    const auto rows = static_cast<int32_t>(tokens.size());
    const kernels::RecurrentRun run = store.begin(sequence, 0, rows);
    std::vector<int32_t> indices(tokens.size());
    std::vector<float> q, k, v, gates, x, qkv[3];
    for (int32_t i = 0; i < rows; ++i) {
      indices[static_cast<size_t>(i)] = i;
      const auto seed = static_cast<uint32_t>(tokens[static_cast<size_t>(i)]);
      for (float value : kernels::testing::random_values(kShape.key_width(), seed, 0.3f)) q.push_back(value);
      for (float value : kernels::testing::random_values(kShape.key_width(), seed + 1000, 0.3f))
        k.push_back(value);
      for (float value : kernels::testing::random_values(kShape.value_width(), seed + 2000))
        v.push_back(value);
      for (int32_t m = 0; m < 2 * kShape.value_heads; ++m)
        gates.push_back(0.5f + 0.4f * static_cast<float>((seed + static_cast<uint32_t>(m)) % 2));
    }
    const kernels::RecurrentInput input = {1, &run, indices.data()};
    std::vector<float> out(static_cast<size_t>(rows * kShape.value_width()));
    team_.run(table_.gated_delta, kernels::GatedDeltaArgs{&input, store.layer(0), q.data(), k.data(),
                                                          v.data(), gates.data(), out.data()});
    return out;
  }

  RecurrentStore store;

 private:
  const kernels::KernelTable& table_ = kernels::cpu_kernels(base::supported_tiers().back());
  kernels::testing::TestTeam team_{2};
};

// What the last token gives after this history, from scratch and row by row.
std::vector<float> fresh(const std::vector<int>& history) {
  Sequences sequences(0);
  sequences.store.create_sequence(0);
  std::vector<float> last;
  for (int token : history) last = sequences.append(0, {token});
  return last;
}

std::vector<int> first_tokens(int count) {
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i * 7 + 3);
  return tokens;
}

TEST(RecurrentStoreTest, RejectedRowsWereNeverThere) {
  for (int rows : {1, 2, 5, kReplayRows}) {
    for (int accepted = 0; accepted <= rows; ++accepted) {
      Sequences sequences(0);
      sequences.store.create_sequence(0);
      std::vector<int> history = first_tokens(5);
      sequences.append(0, history);
      std::vector<int> draft;
      for (int i = 0; i < rows; ++i) draft.push_back(500 + i);
      sequences.append(0, draft);
      sequences.store.commit(0, accepted);
      EXPECT_EQ(sequences.store.length(0), 5 + accepted);
      history.insert(history.end(), draft.begin(), draft.begin() + accepted);
      history.push_back(77);
      EXPECT_EQ(sequences.append(0, {77}), fresh(history)) << accepted << " of " << rows;
    }
  }
}

TEST(RecurrentStoreTest, OnlyPendingRowsAndSnapshotsAreReentryPositions) {
  Sequences sequences(int64_t{1} << 30);
  sequences.store.create_sequence(0);
  const std::vector<int> history = first_tokens(60);
  sequences.append(0, {history.begin(), history.begin() + 20});
  ASSERT_TRUE(sequences.store.take_snapshot(0));  // leads to 4 … 20
  sequences.append(0, {history.begin() + 20, history.end()});
  EXPECT_EQ(sequences.store.reentry_position(0, 60), 60);
  EXPECT_EQ(sequences.store.reentry_position(0, 60 - kReplayRows), 60 - kReplayRows);
  EXPECT_EQ(sequences.store.reentry_position(0, 59 - kReplayRows), 20);
  EXPECT_EQ(sequences.store.reentry_position(0, 4), 4);
  EXPECT_EQ(sequences.store.reentry_position(0, 3), 0);
  for (int length : {50, 20, 11}) {
    sequences.store.fork(0, 1, length);
    std::vector<int> other(history.begin(), history.begin() + length);
    other.push_back(9);
    EXPECT_EQ(sequences.append(1, {9}), fresh(other)) << "forked at " << length;
    sequences.store.release(1);
  }
  sequences.store.truncate(0, 20);
  std::vector<int> again(history.begin(), history.begin() + 20);
  again.push_back(8);
  EXPECT_EQ(sequences.append(0, {8}), fresh(again));
}

TEST(RecurrentStoreTest, SnapshotsStayWithinTheirBudget) {
  Sequences probe(int64_t{1} << 30);
  probe.store.create_sequence(0);
  probe.append(0, first_tokens(30));
  ASSERT_TRUE(probe.store.take_snapshot(0));
  const int64_t one = probe.store.snapshot_bytes_in_use();

  Sequences sequences(2 * one + one / 2);
  sequences.store.create_sequence(0);
  for (int i = 0; i < 5; ++i) {
    sequences.append(0, first_tokens(30));
    ASSERT_TRUE(sequences.store.take_snapshot(0));
    EXPECT_LE(sequences.store.snapshot_bytes_in_use(), 2 * one + one / 2);
  }
  EXPECT_EQ(sequences.store.snapshot_count(), 2);
  sequences.append(0, first_tokens(60));
  EXPECT_EQ(sequences.store.reentry_position(0, 121), 120);
  EXPECT_EQ(sequences.store.reentry_position(0, 100), 0) << "the snapshot at 90 gave way";
  sequences.store.release(0);
  EXPECT_EQ(sequences.store.snapshot_bytes_in_use(), 0);

  Sequences none(one - 1);
  none.store.create_sequence(0);
  none.append(0, first_tokens(30));
  EXPECT_FALSE(none.store.take_snapshot(0));
}

// Random operations against histories that are only lists of tokens.
TEST(RecurrentStoreTest, RandomOperationsAgreeWithReplayingTheHistory) {
  std::mt19937 random(3);
  Sequences sequences(int64_t{1} << 20);
  std::vector<std::vector<int>> histories(8);
  for (int32_t s = 0; s < 8; ++s) sequences.store.create_sequence(s);
  for (int operation = 0; operation < 1500; ++operation) {
    const auto s = static_cast<int32_t>(random() % 8);
    std::vector<int>& history = histories[static_cast<size_t>(s)];
    const auto length = static_cast<int64_t>(history.size());
    switch (random() % 6) {
      case 0: {  // back to where it can go
        const int64_t to = sequences.store.reentry_position(s, length == 0 ? 0 : random() % (length + 1));
        sequences.store.truncate(s, to);
        history.resize(static_cast<size_t>(to));
        break;
      }
      case 1:
        sequences.store.take_snapshot(s);
        break;
      case 2: {
        const auto t = static_cast<int32_t>(random() % 8);
        if (t == s) break;
        const int64_t at = sequences.store.reentry_position(s, length == 0 ? 0 : random() % (length + 1));
        sequences.store.release(t);
        sequences.store.fork(s, t, at);
        histories[static_cast<size_t>(t)].assign(history.begin(), history.begin() + at);
        break;
      }
      default: {
        if (length > 80) {
          sequences.store.release(s);
          sequences.store.create_sequence(s);
          history.clear();
        }
        std::vector<int> tokens(random() % 4 == 0 ? 1 + random() % 40 : 1 + random() % 3);
        for (int& token : tokens) token = static_cast<int>(random() % 900);
        const std::vector<float> out = sequences.append(s, tokens);
        history.insert(history.end(), tokens.begin(), tokens.end());
        if (random() % 8 != 0) break;
        const std::vector<float> expected = fresh(history);
        ASSERT_TRUE(
            std::equal(expected.begin(), expected.end(), out.end() - static_cast<int64_t>(expected.size())))
            << "operation " << operation;
      }
    }
    ASSERT_EQ(sequences.store.length(s), static_cast<int64_t>(history.size()));
  }
}

}  // namespace
}  // namespace rafter::cache

// The cache of a model with full and sliding layers: whatever is done to its sequences, every layer holds
// what the next row would see of it, and sliding layers hold no more than a window and a step.
#include "cache/kv_cache.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace rafter::cache {
namespace {

using kernels::kBlockPositions;

constexpr int64_t kWindows[] = {0, 100, 0, 30};  // by layer
constexpr int64_t kMaxPositions = 900, kRowsPerStep = 90;
constexpr int32_t kSequences = 6;

class KvCacheTest : public ::testing::Test {
 protected:
  KvCacheTest() {
    std::vector<LayerShape> layers;
    for (int64_t window : kWindows) layers.push_back({1, 8, window});
    const KvCacheOptions options = {tensor::DType::f32, kSequences, kMaxPositions, kRowsPerStep, bytes_};
    cache_ = KvCache::create(layers, options).value();
  }

  // The first value of a position's key, by layer: written and read through the tables, as kernels do.
  float& slot(int32_t layer, int32_t sequence, int64_t position) {
    kernels::StepInput input;
    input.sequences = &sequence;
    input.block_tables = cache_.tables();
    input.block_table_stride = cache_.stride();
    input.block_table_kind_stride = cache_.kind_stride();
    const kernels::KvLayer view = cache_.layer(layer);
    const int32_t block = kernels::block_table(input, view, 0)[position / kBlockPositions];
    return *reinterpret_cast<float*>(view.keys + block * view.block_stride +
                                     view.offset(0, position % kBlockPositions));
  }

  void append(int32_t sequence, std::vector<float>& content, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto position = static_cast<int64_t>(content.size());
      content.push_back(next_++);
      for (int32_t l = 0; l < 4; ++l) slot(l, sequence, position) = content.back() + 0.125f * l;
    }
  }

  // What a row at the sequence's length would see.
  void check(int32_t sequence, const std::vector<float>& content) {
    const auto length = static_cast<int64_t>(content.size());
    ASSERT_EQ(cache_.length(sequence), length);
    for (int32_t l = 0; l < 4; ++l) {
      const int64_t from = kWindows[l] == 0 ? 0 : std::max<int64_t>(0, length - kWindows[l] + 1);
      for (int64_t p = from; p < length; ++p)
        ASSERT_EQ(slot(l, sequence, p), content[static_cast<size_t>(p)] + 0.125f * l) << l << " at " << p;
    }
  }

  static constexpr int64_t bytes_ = 600 << 10;
  KvCache cache_;
  float next_ = 1;
};

TEST_F(KvCacheTest, LayersAreGroupedByWindow) {
  EXPECT_EQ(cache_.kinds(), 3u);
  EXPECT_EQ(cache_.layer(0).kind, cache_.layer(2).kind);
  EXPECT_NE(cache_.layer(1).kind, cache_.layer(3).kind);
  EXPECT_LE(cache_.bytes(), bytes_);
}

TEST_F(KvCacheTest, OldBlocksOfAWindowAreGivenBack) {
  const int32_t sequence = cache_.create_sequence().value();
  for (int64_t length = 0; length < kMaxPositions; ++length) {
    ASSERT_TRUE(cache_.extend(sequence, 1).ok());
    if (length < 400) continue;
    for (size_t kind : {1, 2}) {  // windows of 100 and 30
      const int64_t held = cache_.store(kind).capacity() - cache_.store(kind).free_blocks();
      EXPECT_LE(held, kind == 1 ? 3 : 2) << "at " << length;
    }
  }
  EXPECT_EQ(cache_.reentry_position(sequence, kMaxPositions - 1), kMaxPositions - 1);
  EXPECT_EQ(cache_.reentry_position(sequence, 300), 0) << "its windows are gone";
  cache_.release(sequence);
  EXPECT_EQ(cache_.bytes_in_use(), 0);
}

// Any number of a step's rows may be rejected, past the window too.
TEST_F(KvCacheTest, EveryRowOfAStepCanBeTakenBack) {
  const int32_t sequence = cache_.create_sequence().value();
  std::vector<float> content;
  for (int64_t rejected = 0; rejected <= kRowsPerStep; rejected += 9) {
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(cache_.extend(sequence, kRowsPerStep).ok());
      append(sequence, content, kRowsPerStep);
      const auto kept = static_cast<int64_t>(content.size()) - rejected;
      ASSERT_EQ(cache_.reentry_position(sequence, kept), kept);
      cache_.truncate(sequence, kept);
      content.resize(static_cast<size_t>(kept));
      check(sequence, content);
    }
    if (content.size() > 500) {
      cache_.truncate(sequence, 0);
      content.clear();
    }
  }
}

TEST_F(KvCacheTest, SnapshotsLeadBackAndGiveWayToGrowth) {
  const int32_t sequence = cache_.create_sequence().value();
  std::vector<float> content;
  const auto grow = [&](int64_t length) {
    while (static_cast<int64_t>(content.size()) < length) {
      const auto count = std::min<int64_t>(50, length - static_cast<int64_t>(content.size()));
      ASSERT_TRUE(cache_.extend(sequence, count).ok());
      append(sequence, content, count);
    }
  };
  grow(170);
  ASSERT_TRUE(cache_.take_snapshot(sequence));
  const std::vector<float> at_snapshot = content;
  grow(800);
  EXPECT_EQ(cache_.reentry_position(sequence, 700), 170);
  const int32_t forked = cache_.fork(sequence, 170).value();
  check(forked, at_snapshot);
  check(sequence, content);
  cache_.truncate(sequence, 170);
  content = at_snapshot;
  grow(300);  // writes into a shared tail: a copy
  check(sequence, content);
  check(forked, at_snapshot);

  // Sequences that need the blocks get them.
  bool refused = false;
  for (int64_t s = 2; s < kSequences && !refused; ++s) {
    const int32_t other = cache_.create_sequence().value();
    for (int step = 0; step < 10 && !refused; ++step) {
      refused = !cache_.extend(other, kRowsPerStep).ok();
      if (!refused) {
        ASSERT_TRUE(cache_.take_snapshot(other));
      }
    }
  }
  check(forked, at_snapshot);
  check(sequence, content);
}

TEST_F(KvCacheTest, RandomEditsKeepWhatTheNextRowSees) {
  std::mt19937 random(7);
  std::map<int32_t, std::vector<float>> expected;
  int refused = 0, reentered_by_snapshot = 0;
  for (int round = 0; round < 6000; ++round) {
    const uint32_t action = random() % 12;
    if (expected.empty() || action == 0) {
      auto created = cache_.create_sequence();
      ASSERT_EQ(created.ok(), expected.size() < kSequences);
      if (created.ok()) expected[*created] = {};
      continue;
    }
    auto it = std::next(expected.begin(), static_cast<long>(random() % expected.size()));
    const int32_t sequence = it->first;
    std::vector<float>& content = it->second;
    const int64_t asked = static_cast<int64_t>(random() % (content.size() + 1));
    const int64_t recent = std::max<int64_t>(0, static_cast<int64_t>(content.size()) - asked % 40);
    if (action <= 6) {
      const int64_t count = static_cast<int64_t>(random() % (kRowsPerStep + 1));
      if (cache_.extend(sequence, count).ok()) {
        append(sequence, content, count);
      } else {
        ++refused;
      }
    } else if (action <= 8) {
      const int64_t length = cache_.reentry_position(sequence, action == 7 ? asked : recent);
      ASSERT_LE(length, static_cast<int64_t>(content.size()));
      reentered_by_snapshot += action == 7 && length > 0;
      cache_.truncate(sequence, length);
      content.resize(static_cast<size_t>(length));
    } else if (action == 9) {
      const int64_t length = cache_.reentry_position(sequence, asked);
      const std::vector<float> shared(content.begin(), content.begin() + length);
      auto forked = cache_.fork(sequence, length);
      ASSERT_EQ(forked.ok(), expected.size() < kSequences);
      if (forked.ok()) expected[*forked] = shared;
    } else if (action == 10) {
      const bool taken = cache_.take_snapshot(sequence);
      const auto length = static_cast<int64_t>(content.size());
      if (taken) {
        ASSERT_EQ(cache_.reentry_position(sequence, length), length);
      }
    } else if (random() % 4 == 0) {
      cache_.release(sequence);
      expected.erase(sequence);
    }
    for (const auto& [id, values] : expected) check(id, values);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(reentered_by_snapshot, 100);
  for (const auto& [id, values] : expected) cache_.release(id);
  EXPECT_EQ(cache_.bytes_in_use(), 0) << "a block was lost";
}

TEST(KvCacheOptionsTest, TooLittleMemoryIsRefused) {
  const std::vector<LayerShape> layers = {{1, 8, 0}, {1, 8, 100}};
  const auto refused = KvCache::create(layers, {tensor::DType::f32, 4, 900, 90, 10000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().message().find("10000"), std::string::npos) << refused.error().message();
}

}  // namespace
}  // namespace rafter::cache

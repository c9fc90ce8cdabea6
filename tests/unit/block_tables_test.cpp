#include "cache/block_tables.h"

#include <cstring>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace rafter::cache {
namespace {

// A store of one layer whose blocks are written by hand, so that contents can be followed through table
// edits.
class BlockTablesTest : public ::testing::Test {
 protected:
  static constexpr int32_t kBlocks = 40, kSequences = 6;
  static constexpr int64_t kMaxPositions = 700;

  BlockTablesTest()
      : store_(BlockStore::create({{1, 8}}, tensor::DType::f32, kBlocks).value()),
        tables_(BlockTables::create(&store_, {kSequences, kMaxPositions}).value()) {}

  float& slot(int32_t sequence, int64_t position) {
    const kernels::KvLayer layer = store_.layer(0);
    const int32_t block = tables_.data()[sequence * tables_.stride() + position / kernels::kBlockPositions];
    return *reinterpret_cast<float*>(layer.keys + block * layer.block_stride +
                                     layer.offset(0, position % kernels::kBlockPositions));
  }

  BlockStore store_;
  BlockTables tables_;
};

// Random creates, extends, truncates, forks and releases against a model that keeps every sequence's content.
TEST_F(BlockTablesTest, RandomEditsKeepEverySequencesContent) {
  std::mt19937 random(7);
  std::map<int32_t, std::vector<float>> expected;
  float next = 1;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t action = random() % 10;
    if (expected.empty() || action == 0) {
      auto created = tables_.create_sequence();
      ASSERT_EQ(created.ok(), expected.size() < kSequences);
      if (created.ok()) expected[*created] = {};
      continue;
    }
    auto it = std::next(expected.begin(), static_cast<long>(random() % expected.size()));
    const int32_t sequence = it->first;
    std::vector<float>& content = it->second;
    if (action <= 5) {
      const int64_t count = static_cast<int64_t>(random() % 90);
      const bool fits = tables_.blocks_needed(sequence, count) <= store_.free_blocks() &&
                        static_cast<int64_t>(content.size()) + count <= kMaxPositions;
      base::Status status = tables_.extend(sequence, count);
      ASSERT_EQ(status.ok(), fits);
      if (status.ok()) {
        for (int64_t i = 0; i < count; ++i) {
          slot(sequence, static_cast<int64_t>(content.size())) = next;
          content.push_back(next++);
        }
      }
    } else if (action <= 7) {
      const int64_t length = static_cast<int64_t>(random() % (content.size() + 1));
      tables_.truncate(sequence, length);
      content.resize(static_cast<size_t>(length));
    } else if (action == 8) {
      const int64_t length = static_cast<int64_t>(random() % (content.size() + 1));
      const std::vector<float> shared(content.begin(), content.begin() + length);
      auto forked = tables_.fork(sequence, length);
      ASSERT_EQ(forked.ok(), expected.size() < kSequences);
      if (forked.ok()) expected[*forked] = shared;
    } else {
      tables_.release(sequence);
      expected.erase(sequence);
    }
    for (const auto& [id, values] : expected) {
      ASSERT_EQ(tables_.length(id), static_cast<int64_t>(values.size()));
      for (size_t p = 0; p < values.size(); ++p) ASSERT_EQ(slot(id, static_cast<int64_t>(p)), values[p]);
    }
  }
  for (const auto& [id, values] : expected) tables_.release(id);
  EXPECT_EQ(store_.free_blocks(), kBlocks);
}

TEST_F(BlockTablesTest, RefusalsSayTheNumbersAndChangeNothing) {
  const int32_t sequence = tables_.create_sequence().value();
  ASSERT_TRUE(tables_.extend(sequence, 100).ok());
  base::Status status = tables_.extend(sequence, 601);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, base::ErrorCode::out_of_memory);
  EXPECT_NE(status.error().message().find("100 positions held and 601 more exceed the context limit of 700"),
            std::string::npos);
  EXPECT_EQ(tables_.length(sequence), 100);
}

}  // namespace
}  // namespace rafter::cache

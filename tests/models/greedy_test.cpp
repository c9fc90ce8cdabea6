// Engine::decode_greedy on the CPU: the tokens that the logits choose, and what the sequences hold
// afterwards. tests/models/cuda_test.cpp has the same on a GPU.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/models/engine_fixture.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using engine::Row;

class GreedyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = write_synth_model("llama3-tiny", "mlx4", folder_.path());
    engine::EngineOptions options;
    options.threads = 1;
    options.context_limit = 64;
    engine_ = open_engine(path_, options);
  }
  int32_t largest(int i) const {
    const auto logits = engine_->logits(i);
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  TempFolder folder_;
  std::string path_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(GreedyTest, TokensAreTheLargestLogits) {
  const std::vector<Row> rows = {{7, 0, engine_->create_sequence().value(), true, 0},
                                 {9, 0, engine_->create_sequence().value(), true, 0}};
  std::vector<std::vector<int32_t>> got;
  ASSERT_TRUE(engine_
                  ->decode_greedy(rows, 20,
                                  [&](std::span<const int32_t> tokens) {
                                    got.emplace_back(tokens.begin(), tokens.end());
                                    return got.size() < 12;
                                  })
                  .ok());
  ASSERT_EQ(got.size(), 12U);
  for (const Row& row : rows) {
    EXPECT_EQ(engine_->length(row.sequence), 12);
    engine_->truncate(row.sequence, 0);
  }
  std::vector<Row> next = rows;
  for (const std::vector<int32_t>& tokens : got) {
    ASSERT_TRUE(engine_->step(next).ok());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(tokens[static_cast<size_t>(i)], largest(i));
      next[static_cast<size_t>(i)].token = largest(i), ++next[static_cast<size_t>(i)].position;
    }
  }
}

TEST_F(GreedyTest, TheContextEndsIt) {
  const std::vector<Row> rows = {{7, 0, engine_->create_sequence().value(), true, 0}};
  int steps = 0;
  const base::Status status = engine_->decode_greedy(rows, 100, [&](std::span<const int32_t>) {
    ++steps;
    return true;
  });
  EXPECT_EQ(status.error().code, base::ErrorCode::out_of_memory);
  EXPECT_EQ(steps, 64);
}

}  // namespace
}  // namespace rafter::testing

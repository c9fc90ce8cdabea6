// A weight file that another process cuts short while it is mapped: an error wherever weights are read, never
// a signal and never an answer from zeros.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/truncation_guard.h"
#include "cli/model_facts.h"
#include "decode/model_text.h"
#include "engine/engine.h"
#include "model/model.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter {
namespace {

namespace fs = std::filesystem;

class Truncated : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    base::install_truncation_guard();
    model_ = testing::write_synth_model("llama3-tiny", GetParam(), folder_.path());
    auto opened = format::Checkpoint::open(model_);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    checkpoint_ = std::make_shared<const format::Checkpoint>(std::move(opened).value());
    ASSERT_EQ(checkpoint_->files().size(), 1u);
  }

  // Leaves what is before the first tensor, and `kept` bytes more.
  void cut(int64_t kept = 0) {
    const base::MappedFile& file = checkpoint_->files()[0];
    int64_t start = static_cast<int64_t>(file.bytes().size());
    for (const auto& [name, tensor] : checkpoint_->tensors()) {
      start = std::min<int64_t>(start, tensor.data - file.bytes().data());
    }
    fs::resize_file(file.path(), static_cast<uintmax_t>(start + kept));
  }

  base::Result<std::unique_ptr<engine::Engine>> open_engine() const {
    engine::EngineOptions options;
    options.threads = 2;
    options.max_sequences = 1;
    options.context_limit = 64;
    return engine::Engine::open(checkpoint_, options);
  }

  testing::TempFolder folder_;
  std::string model_;
  std::shared_ptr<const format::Checkpoint> checkpoint_;
};

TEST_P(Truncated, WhileTheModelIsBuilt) {
  cut();
  const auto model = model::load_model(*checkpoint_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, base::ErrorCode::io) << model.error().message();
  EXPECT_FALSE(open_engine().ok());
}

TEST_P(Truncated, BetweenSteps) {
  auto engine = open_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  const int32_t sequence = (*engine)->create_sequence().value();
  const engine::Row rows[] = {{1, 0, sequence, false, 0}, {2, 1, sequence, true, 0}};
  ASSERT_TRUE((*engine)->step(rows).ok());
  cut();
  const engine::Row next[] = {{3, 2, sequence, true, 0}};
  const base::Status status = (*engine)->step(next);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, base::ErrorCode::io) << status.error().message();
  EXPECT_NE(status.error().message().find("load the model again"), std::string::npos);
  EXPECT_FALSE((*engine)->step(next).ok());
}

// The lookup of one row of the embedding reads a page that no product reads.
TEST_P(Truncated, OnlyTheEmbedding) {
  auto engine = open_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  const int32_t sequence = (*engine)->create_sequence().value();
  const engine::Row first[] = {{1, 0, sequence, true, 0}};
  ASSERT_TRUE((*engine)->step(first).ok());
  const base::MappedFile& file = checkpoint_->files()[0];
  const bool gguf = checkpoint_->container() == format::Container::gguf;
  const auto& table = checkpoint_->tensors().at(gguf ? "token_embd.weight" : "model.embed_tokens.weight");
  fs::resize_file(file.path(), static_cast<uintmax_t>(table.data - file.bytes().data()));
  const engine::Row next[] = {{2, 1, sequence, true, 0}};
  EXPECT_FALSE((*engine)->step(next).ok());
}

TEST_P(Truncated, WhileItIsScanned) {
  cut();
  const auto record = cli::read_model_facts({model_, "model"});
  EXPECT_FALSE(record.ok());  // its headers no longer fit its size
}

INSTANTIATE_TEST_SUITE_P(Containers, Truncated, ::testing::Values("bf16", "mlx4", "q4_0", "q4_k"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace rafter

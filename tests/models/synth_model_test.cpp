// Synthetic checkpoints as models: written, opened, run.
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "lab/synth.h"
#include "lab/synth_shapes.h"
#include "lab/synth_tokenizer.h"
#include "model/model.h"
#include "tests/support/synth_checks.h"
#include "tests/support/temp_folder.h"

namespace rafter::lab {
namespace {

using testing::TempFolder;

SynthSummary write(const std::string& shape, const std::string& format, const std::string& folder,
                   int64_t shard_bytes = 5'000'000'000) {
  SynthOptions options;
  options.shape = shape;
  options.format = format;
  options.folder = folder;
  options.shard_bytes = shard_bytes;
  const auto summary = run_synth_blocking(options);
  EXPECT_TRUE(summary.ok()) << summary.error().message();
  return summary.ok() ? *summary : SynthSummary{};
}

std::unique_ptr<engine::Engine> open_engine(const std::string& path) {
  auto checkpoint = format::Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  if (!checkpoint.ok()) return nullptr;
  engine::EngineOptions options;
  options.context_limit = 64;
  options.max_sequences = 1;
  options.threads = 1;
  auto engine = engine::Engine::open(std::make_shared<const format::Checkpoint>(*std::move(checkpoint)),
                                     std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.error().message();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// What the plan says of its matrix products and its experts.
int64_t planned_weight_bytes(engine::Engine& engine) {
  const auto plan = engine.plan_for(1);
  EXPECT_TRUE(plan.ok());
  int64_t bytes = 0;
  for (const plan::Op& op : (*plan)->ops) {
    if (std::holds_alternative<kernels::MatmulArgs>(op.args) ||
        std::holds_alternative<kernels::ExpertsArgs>(op.args))
      bytes += plan::op_cost(**plan, op, 1, 1, 0).weight_bytes;
  }
  return bytes;
}

class SynthModel : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SynthModel, OpensAndGivesSaneLogits) {
  const auto [shape, format] = GetParam();
  TempFolder folder;
  const SynthSummary summary = write(shape, format, folder / "out");
  const auto engine = open_engine(summary.path);
  ASSERT_NE(engine, nullptr);
  const SynthShape& row = **find_synth_shape(shape);
  EXPECT_EQ(engine->vocabulary_size(), row.vocabulary);
  EXPECT_EQ(engine->model().info().tied_head, row.tied_head);

  const auto sequence = engine->create_sequence();
  ASSERT_TRUE(sequence.ok());
  std::vector<engine::Row> rows;
  for (int32_t i = 0; i < 12; ++i) rows.push_back({7 + 37 * i, i, *sequence, i > 8, 0});
  const auto status = engine->step(rows);
  ASSERT_TRUE(status.ok()) << status.error().message();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(testing::logits_fault(engine->logits(i)), "");

  // The summary's figures, counted by others: the plan, the loader, the file system.
  EXPECT_EQ(summary.streamed_bytes, planned_weight_bytes(*engine));
  int64_t divisors = 0;  // of GGUF's rotations; no parameters
  if (summary.path.ends_with(".gguf"))
    divisors = row.rope_scaling ? row.head_dim / 2 : row.gemma4 ? row.gemma4->full_head_dim / 2 : 0;
  EXPECT_EQ(summary.parameters + divisors, engine->model().info().parameters);
  int64_t bytes = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "out")) {
    bytes += static_cast<int64_t>(entry.file_size());
    ++files;
  }
  EXPECT_EQ(summary.bytes, bytes);
  EXPECT_EQ(static_cast<int64_t>(summary.files.size()), files);
}

INSTANTIATE_TEST_SUITE_P(Tiny, SynthModel,
                         ::testing::Combine(::testing::Values("llama3-tiny", "qwen3-tiny", "gemma4-e2b-tiny",
                                                              "gemma4-e4b-tiny", "gemma4-12b-tiny",
                                                              "gemma4-26b-a4b-tiny", "qwen3.5-4b-tiny",
                                                              "qwen3.5-27b-tiny", "qwen3.5-35b-a3b-tiny"),
                                            ::testing::Values("bf16", "mlx4", "mlx8", "mlx-mixed", "q4_0",
                                                              "q8_0", "q4_k", "q5_k", "q6_k")));

TEST(SynthFiles, HoldWhatOtherProgramsExpect) {
  for (const char* shape : {"llama3-tiny", "qwen3-tiny", "gemma4-e4b-tiny", "gemma4-26b-a4b-tiny",
                            "qwen3.5-4b-tiny", "qwen3.5-35b-a3b-tiny"}) {
    for (const char* format : {"bf16", "mlx4", "mlx-mixed", "q4_0"}) {
      TempFolder folder;
      const auto checkpoint = format::Checkpoint::open(write(shape, format, folder / "out").path);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
      EXPECT_EQ(testing::names_fault(testing::expected_tensors(shape, format),
                                     testing::stored_tensors(*checkpoint)),
                "")
          << shape << " " << format;
    }
  }
}

TEST(SynthFiles, ShardsHoldTheSameTensors) {
  TempFolder folder;
  constexpr int64_t kLimit = 600'000;
  const SynthSummary cut = write("llama3-tiny", "bf16", folder / "cut", kLimit);
  const auto whole = format::Checkpoint::open(write("llama3-tiny", "bf16", folder / "whole").path);
  const auto shards = format::Checkpoint::open(cut.path);
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(shards.ok()) << shards.error().message();
  EXPECT_GT(shards->files().size(), 5u);
  EXPECT_EQ(testing::stored_tensors(*whole), testing::stored_tensors(*shards));
  std::map<int, int64_t> sizes;
  for (const auto& [name, tensor] : shards->tensors()) {
    sizes[tensor.file] += tensor.bytes;
    EXPECT_EQ(std::memcmp(tensor.data, whole->tensors().at(name).data, static_cast<size_t>(tensor.bytes)), 0)
        << name;
  }
  for (const auto& [file, bytes] : sizes) EXPECT_LE(bytes, kLimit);
  EXPECT_EQ(cut.files.front(), "model-00001-of-00011.safetensors");
  std::ifstream index(folder / "cut/model.safetensors.index.json");
  EXPECT_EQ(nlohmann::json::parse(index).at("weight_map").size(), whole->tensors().size());
}

TEST(SynthFiles, GgufCarriesTheTokenizer) {
  TempFolder folder;
  const SynthShape& shape = **find_synth_shape("llama3-tiny");
  const auto checkpoint = format::Checkpoint::open(write("llama3-tiny", "q4_0", folder / "out").path);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(**checkpoint->gguf_strings("tokenizer.ggml.tokens"), synth_pieces(shape));
  EXPECT_EQ(**checkpoint->gguf_strings("tokenizer.ggml.merges"), synth_merges());
  EXPECT_EQ(*checkpoint->gguf_string("tokenizer.chat_template"), shape.tokens.chat_template);
  EXPECT_EQ(*checkpoint->gguf_integer("tokenizer.ggml.eos_token_id"), shape.tokens.eos);
  const auto types = checkpoint->gguf_integers("tokenizer.ggml.token_type");
  ASSERT_TRUE(types.ok());
  ASSERT_EQ(static_cast<int64_t>(types->size()), shape.vocabulary);
  for (const SynthMarker& marker : shape.tokens.markers)
    EXPECT_EQ(types->at(static_cast<size_t>(marker.id)), 3);  // control
}

}  // namespace
}  // namespace rafter::lab

// Perplexity against mlx-lm's own figure on every checkpoint that it reads, KL between engines, embeddings
// against transformers.
#include "lab/perplexity.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "lab/embedding.h"
#include "tests/models/engine_fixture.h"
#include "tests/models/tensor_file.h"

namespace rafter::testing {
namespace {

engine::EngineOptions precise_options() {
  engine::EngineOptions options;
  options.precise = true;
  options.threads = 2;
  options.max_sequences = 2;
  return options;
}

TEST(Perplexity, IsMlxLmsOwn) {
  int compared = 0;
  for (const OracleCase& oracle_case : oracle_cases()) {
    const TensorFile file(oracle_case.truth);
    if (!file.has("perplexity")) continue;
    SCOPED_TRACE(oracle_case.name);
    const std::vector<float> expected = file.read<float>("perplexity");  // and its error
    const std::vector<int32_t> tokens = file.read<int32_t>("tokens");
    const auto windows = lab::cut_windows(tokens, {25, 0}).value();
    auto engine = open_engine(oracle_case.path, precise_options());
    const auto measured = lab::measure_perplexity_blocking(*engine, nullptr, windows);
    ASSERT_TRUE(measured.ok()) << measured.error().message();
    EXPECT_NEAR(measured->model.perplexity / expected[0], 1, 1e-4);
    EXPECT_NEAR(measured->model.error / expected[1], 1, 1e-3);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no perplexities in " << oracle_folder() << ": run make oracle";
  std::printf("%d checkpoints compared with mlx-lm\n", compared);
}

TEST(Perplexity, ComparesTwoEngines) {
  if (oracle_cases().empty()) GTEST_SKIP() << "no oracle data: run make oracle";
  const OracleCase& oracle_case = oracle_cases()[0];
  const std::vector<int32_t> tokens = TensorFile(oracle_case.truth).read<int32_t>("tokens");
  const auto windows = lab::cut_windows(tokens, {50, 1}).value();
  ASSERT_EQ(windows.size(), 1u);
  auto precise = open_engine(oracle_case.path, precise_options());
  auto same = open_engine(oracle_case.path, precise_options());
  engine::EngineOptions options = precise_options();
  options.precise = false;
  auto rounded = open_engine(oracle_case.path, options);

  auto equal = lab::measure_perplexity_blocking(*precise, same.get(), windows).value();
  EXPECT_EQ(equal.model.tokens, 49);
  EXPECT_NEAR(equal.kl.largest, 0, 1e-12);
  EXPECT_EQ(equal.kl.same_choice, 1);
  EXPECT_EQ(equal.model.perplexity, equal.reference.perplexity);

  auto compared = lab::measure_perplexity_blocking(*rounded, precise.get(), windows).value();
  EXPECT_GT(compared.kl.mean, 1e-9);
  EXPECT_LT(compared.kl.mean, 1e-2);
  EXPECT_LE(compared.kl.p50, compared.kl.p90);
  EXPECT_LE(compared.kl.p90, compared.kl.p99);
  EXPECT_LE(compared.kl.p99, compared.kl.largest);
  EXPECT_EQ(compared.reference.perplexity, equal.model.perplexity);
}

TEST(Perplexity, WindowsAndQuantiles) {
  const std::vector<int32_t> tokens(10);
  EXPECT_EQ(lab::cut_windows(tokens, {3, 0})->size(), 3u);  // the tenth token is dropped
  EXPECT_EQ(lab::cut_windows(tokens, {3, 2})->size(), 2u);
  EXPECT_EQ(lab::cut_windows(tokens, {10, 256})->size(), 1u);
  EXPECT_FALSE(lab::cut_windows(tokens, {11, 256}).ok());
  EXPECT_FALSE(lab::cut_windows(tokens, {1, 256}).ok());
  std::vector<double> divergences;
  for (int i = 100; i > 0; --i) divergences.push_back(i);
  const lab::KlFigures figures = lab::summarize_kl(divergences, 25);
  EXPECT_NEAR(figures.mean, 50.5, 1e-9);
  EXPECT_EQ(figures.p50, 50);
  EXPECT_EQ(figures.p90, 90);
  EXPECT_EQ(figures.p99, 99);
  EXPECT_EQ(figures.largest, 100);
  EXPECT_EQ(figures.same_choice, 0.25);
}

// Several lines in one step, of unequal lengths and cut by the step's capacity, give what each gives alone,
// and what transformers gives.
TEST(Embedding, IsTransformersLastState) {
  int compared = 0;
  for (const OracleCase& oracle_case : oracle_cases()) {
    const TensorFile file(oracle_case.truth);
    if (!file.has("embedding") || oracle_case.family != "qwen3") continue;
    SCOPED_TRACE(oracle_case.name);
    const std::vector<float> expected = file.read<float>("embedding");
    const std::vector<int32_t> tokens = file.read<int32_t>("tokens");
    engine::EngineOptions options = precise_options();
    options.row_capacity = 64;
    lab::set_embedding_options(options);
    auto engine = open_engine(oracle_case.path, options);
    const std::vector<std::vector<int32_t>> lines = {
        {tokens.begin(), tokens.begin() + 5}, tokens, {tokens[7]}};
    const auto together = lab::embed_blocking(*engine, lines).value();
    ASSERT_EQ(together.size(), lines.size());
    ASSERT_EQ(together[1].size(), expected.size());
    double dot = 0, error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      dot += double{together[1][i]} * together[1][i];
      error = std::max(error, std::abs(double{together[1][i]} - expected[i]));
    }
    EXPECT_NEAR(dot, 1, 1e-6);
    EXPECT_LE(error, 1e-4);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lab::embed_blocking(*engine, std::span(lines).subspan(i, 1)).value()[0], together[i]);
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no embeddings in " << oracle_folder() << ": run make oracle";
  std::printf("%d checkpoints compared with transformers\n", compared);
}

// The text and figure of oracle/smollm2.py: 2000 tokens in one window.
TEST(Perplexity, SmolLm2) {
  const std::string root = RAFTER_SOURCE_DIR;
  const std::string model = root + "/build/models/smollm2-135m-instruct.gguf";
  const std::string values = root + "/build/oracle/smollm2/smollm2.safetensors";
  if (!std::filesystem::exists(model) || !std::filesystem::exists(values))
    GTEST_SKIP() << "no SmolLM2: run make oracle";
  const TensorFile file(values);
  std::vector<int32_t> tokens = file.read<int32_t>("text_tokens");
  const std::vector<float> losses = file.read<float>("nll");
  tokens.resize(512);
  double expected = 0;
  for (size_t i = 0; i < 511; ++i) expected += losses[i] / 511;
  engine::EngineOptions options;
  options.max_sequences = 1;
  options.context_limit = 512;
  auto engine = open_engine(model, options);
  const auto windows = lab::cut_windows(tokens, {512, 0}).value();
  const auto measured = lab::measure_perplexity_blocking(*engine, nullptr, windows).value();
  EXPECT_NEAR(measured.model.perplexity / std::exp(expected), 1, 0.005);
}

}  // namespace
}  // namespace rafter::testing

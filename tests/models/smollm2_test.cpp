// The real SmolLM2-135M-Instruct against transformers on the same expanded weights (oracle/smollm2.py).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "decode/model_text.h"
#include "lab/perplexity.h"
#include "tests/models/engine_fixture.h"
#include "tests/models/tensor_file.h"

namespace rafter::testing {
namespace {

std::string model_path() {
  if (const char* path = std::getenv("RAFTER_SMOLLM2")) return path;
  return std::string(RAFTER_SOURCE_DIR) + "/build/models/smollm2-135m-instruct.gguf";
}

std::string values_path() {
  if (const char* path = std::getenv("RAFTER_SMOLLM2_VALUES")) return path;
  return std::string(RAFTER_SOURCE_DIR) + "/build/oracle/smollm2/smollm2.safetensors";
}

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path()))
      GTEST_SKIP() << model_path() << " is not there: run make oracle";
    if (!std::filesystem::exists(values_path()))
      GTEST_SKIP() << values_path() << " is not there: run make oracle";
    values_ = std::make_unique<TensorFile>(values_path());
  }

  static std::unique_ptr<engine::Engine> open(bool precise) {
    engine::EngineOptions options;
    options.precise = precise;
    options.max_sequences = 2;
    return open_engine(model_path(), options);
  }

  std::unique_ptr<TensorFile> values_;
};

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum) - logits[static_cast<size_t>(token)];
}

TEST_F(SmolLm2Test, PerplexityWithinHalfAPercent) {
  const std::vector<int32_t> tokens = values_->read<int32_t>("text_tokens");
  const std::vector<float> expected_nll = values_->read<float>("nll");
  ASSERT_EQ(tokens.size(), 2000u);
  auto engine = open(/*precise=*/false);
  const int32_t sequence = engine->create_sequence().value();
  double expected = 0, actual = 0;
  std::vector<engine::Row> rows;
  for (size_t begin = 0; begin < tokens.size(); begin += 64) {
    rows.clear();
    for (size_t t = begin; t < std::min(begin + 64, tokens.size()); ++t) {
      rows.push_back({tokens[t], static_cast<int32_t>(t), sequence, true, 0});
    }
    ASSERT_TRUE(engine->step(rows).ok());
    for (size_t i = 0; i < rows.size() && begin + i + 1 < tokens.size(); ++i) {
      actual += negative_log_likelihood(engine->logits(static_cast<int>(i)), tokens[begin + i + 1]);
      expected += expected_nll[begin + i];
    }
  }
  const double count = static_cast<double>(tokens.size() - 1);
  const double perplexity = std::exp(actual / count), oracle = std::exp(expected / count);
  std::printf("perplexity %.5f, oracle %.5f, ratio %.6f\n", perplexity, oracle, perplexity / oracle);
  EXPECT_NEAR(perplexity / oracle, 1.0, 0.005);
}

// Quantised keys and values against the same engine without: precise products and an fp32 cache in both,
// where nothing but the cache differs, and the default mode, where every rounding comes out otherwise too.
TEST_F(SmolLm2Test, QuantisedCacheStaysNear) {
  const std::vector<int32_t> tokens = values_->read<int32_t>("text_tokens");
  const auto windows = lab::cut_windows(tokens, {512, 2}).value();
  const auto mean_kl = [&](engine::KvQuantization kv, bool precise) {
    engine::EngineOptions options;
    options.precise = precise;
    options.max_sequences = 2;
    auto reference = open_engine(model_path(), options);
    options.kv_quantization = kv;
    auto quantised = open_engine(model_path(), options);
    return lab::measure_perplexity_blocking(*quantised, reference.get(), windows).value().kl.mean;
  };
  for (const bool precise : {true, false}) {
    const double eight = mean_kl(engine::KvQuantization::eight_bits, precise);
    const double four = mean_kl(engine::KvQuantization::four_bits, precise);
    std::printf("KL of a quantised cache, %s, nats: 8 bits %.3g, 4 bits %.3g\n",
                precise ? "precise" : "default", eight, four);
    EXPECT_LE(eight, 1e-3);
    EXPECT_GT(eight, 0);
    EXPECT_LE(four, 0.2);  // no bar: a change of order would show
  }
}

TEST_F(SmolLm2Test, LogitsWithinTheirBounds) {
  const std::vector<int32_t> tokens = values_->read<int32_t>("text_tokens");
  const std::vector<float> truth = values_->read<float>("logits"), witness = values_->read<float>("witness");
  const size_t vocabulary = truth.size() / 64;
  LogitError bf16;
  for (size_t t = 0; t < 64; ++t) {
    bf16.add_row({&truth[t * vocabulary], vocabulary}, {&witness[t * vocabulary], vocabulary}, 0);
  }
  for (bool precise : {true, false}) {
    auto engine = open(precise);
    std::vector<float> logits;
    feed(*engine, engine->create_sequence().value(), tokens, 0, 64, 64, &logits);
    const double bound = precise ? 1e-3 * bf16.max_logit : 2 * bf16.max_delta;
    LogitError ours;
    for (size_t t = 0; t < 64; ++t) {
      ours.add_row({&truth[t * vocabulary], vocabulary}, {&logits[t * vocabulary], vocabulary}, bound);
    }
    std::printf("%s: max|delta| %.3g of %.3g allowed, mean KL %.3g, witness %.3g\n",
                precise ? "precise" : "default", ours.max_delta, bound, ours.mean_kl(), bf16.mean_kl());
    EXPECT_EQ(ours.fault(bound, precise ? INFINITY : 2 * bf16.mean_kl()), "");
  }
}

TEST_F(SmolLm2Test, GreedyAnswerIsTheOracles) {
  const std::vector<int32_t> prompt = values_->read<int32_t>("prompt_tokens");
  const std::vector<int32_t> answer = values_->read<int32_t>("answer_tokens");
  for (bool precise : {true, false}) {
    auto engine = open(precise);
    const int32_t sequence = engine->create_sequence().value();
    std::vector<int32_t> tokens = prompt;
    std::vector<float> logits;
    feed(*engine, sequence, tokens, 0, static_cast<int64_t>(prompt.size()), 512, nullptr);
    engine->truncate(sequence, static_cast<int64_t>(prompt.size()) - 1);
    for (size_t i = 0; i < answer.size(); ++i) {
      logits.clear();
      const auto last = static_cast<int64_t>(tokens.size());
      feed(*engine, sequence, tokens, last - 1, last, 1, &logits);
      tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    EXPECT_EQ(std::vector<int32_t>(tokens.begin() + static_cast<long>(prompt.size()), tokens.end()), answer)
        << (precise ? "precise" : "default");
  }
}

// The file's own metadata, through the program's own path, on a multilingual sample.
TEST_F(SmolLm2Test, TokenIdsAreThoseOfItsOwnTokensAndMerges) {
  const std::string path = std::string(RAFTER_SOURCE_DIR) + "/build/oracle/tokenizer/smollm2_ids.json";
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << path << " is not there: run make oracle";
  const format::Checkpoint checkpoint = format::Checkpoint::open(model_path()).value();
  const decode::ModelText text = decode::ModelText::from_checkpoint(checkpoint).value();
  int compared = 0;
  for (const auto& entry : nlohmann::json::parse(file)) {
    const std::vector<int32_t> ids = text.tokenizer().encode(entry["text"].get<std::string>(), false).value();
    EXPECT_EQ(ids, entry["ids"].get<std::vector<int32_t>>()) << entry["text"];
    ++compared;
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace rafter::testing

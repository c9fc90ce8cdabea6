// The order contract: a row's logits are the same bits for any number of threads, any company, any cut of the
// prompt, after re-entering a cached prefix, at every length, and fused or not.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/models/engine_fixture.h"

namespace rafter::testing {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Row;

using engine::KvQuantization;

struct OrderCase {
  OrderCase(const char* name, KvQuantization mode = KvQuantization::off) : checkpoint(name), kv(mode) {}
  const char* checkpoint;
  KvQuantization kv;
};

// One checkpoint per number format, and every family; quantised keys and values with every kind of layers.
const OrderCase kCases[] = {"llama-a/hf-bf16",
                            "qwen2-tiny/hf-fp16",
                            "qwen3-256/mlx4-g64",
                            "llama-256/mlx8-g128",
                            "minicpm5-like/mlx-mixed-g32",
                            "llama-256/gguf-q4_0",
                            "qwen2-256/gguf-q4_1",
                            "qwen3-256/gguf-q8_0",
                            "llama-256/gguf-q6_k",
                            "qwen3-moe-tiny/mlx-mixed-g64",
                            "qwen3-moe-256/gguf-q6_k",
                            "phi3/mlx4-g32",
                            "smollm3/hf-bf16",
                            "qwen3_5-tiny/mlx4-g32",
                            "qwen3_5-wrapped/hf-bf16",
                            "qwen3_5-moe/mlx8-g32",
                            "gemma2-tiny/mlx4-g32",
                            "gemma3-tiny/gguf-q4_0",
                            "gemma3-wrapped/hf-bf16",
                            "gemma4-e/mlx-mixed-g32",
                            "gemma4-e/gguf-q8_0",
                            "gemma4-dense/mlx4-g32",
                            "gemma4-moe/mlx8-g32",
                            {"llama-a/hf-bf16", KvQuantization::eight_bits},
                            {"llama-256/gguf-q4_0", KvQuantization::four_bits},
                            {"qwen3_5-tiny/mlx4-g32", KvQuantization::eight_bits},
                            {"gemma3-tiny/gguf-q4_0", KvQuantization::four_bits},
                            {"gemma4-e/mlx-mixed-g32", KvQuantization::eight_bits}};

class OrderTest : public ::testing::TestWithParam<OrderCase> {
 protected:
  void SetUp() override {
    const OracleCase* found = find_oracle_case(GetParam().checkpoint);
    if (found == nullptr)
      GTEST_SKIP() << "no oracle data for " << GetParam().checkpoint << ": run make oracle";
    path_ = found->path;
    values_ = read_values(*found);
  }

  std::unique_ptr<Engine> open(int threads, bool fuse = true) const {
    EngineOptions options;
    options.threads = threads;
    options.fuse = fuse;
    options.kv_quantization = GetParam().kv;
    options.row_capacity = 128;
    options.max_sequences = 20;
    return open_engine(path_, options);
  }

  // All rows of the oracle's tokens, in steps of `chunk`.
  std::vector<float> run(Engine& engine, int64_t chunk) const {
    std::vector<float> logits;
    const int32_t sequence = engine.create_sequence().value();
    feed(engine, sequence, values_.tokens, 0, static_cast<int64_t>(values_.tokens.size()), chunk, &logits);
    engine.release_sequence(sequence);
    return logits;
  }

  static void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                               const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
  }

  std::string path_;
  OracleValues values_;
};

TEST_P(OrderTest, ThreadsAndCutsOfThePrompt) {
  auto engine = open(1);
  const std::vector<float> one_by_one = run(*engine, 1);
  for (int64_t chunk : {2, 3, 7, 16, 37, 64, 101}) {
    expect_same_bits(run(*engine, chunk), one_by_one, fmt::format("chunks of {}", chunk));
  }
  for (int threads : {2, 4}) {
    auto other = open(threads);
    for (int64_t chunk : {1, 37}) {
      expect_same_bits(run(*other, chunk), one_by_one,
                       fmt::format("{} threads, chunks of {}", threads, chunk));
    }
  }
}

TEST_P(OrderTest, FusedEqualsUnfused) {
  auto fused = open(2), unfused = open(2, /*fuse=*/false);
  for (int64_t chunk : {1, 37}) {
    expect_same_bits(run(*fused, chunk), run(*unfused, chunk), fmt::format("chunks of {}", chunk));
  }
}

// Sequences of different lengths advance together in steps that mix decode rows and prompt chunks; each must
// get what it gets alone.
TEST_P(OrderTest, AloneAndAmongSixteenRows) {
  auto engine = open(2);
  const std::vector<float> alone = run(*engine, 1);
  const size_t vocabulary = static_cast<size_t>(values_.vocabulary);
  std::mt19937 random(11);
  constexpr int kSequences = 16;
  std::vector<int32_t> ids;
  for (int s = 0; s < kSequences; ++s) ids.push_back(engine->create_sequence().value());
  const auto total = static_cast<int64_t>(values_.tokens.size());
  int compared = 0;
  for (int step = 0; step < 60; ++step) {
    std::vector<Row> rows;
    std::vector<int64_t> positions;
    for (int s = 0; s < kSequences; ++s) {
      const int64_t held = engine->length(ids[s]);
      const int64_t take = std::min<int64_t>(random() % 3 == 0 ? random() % 6 : random() % 2, total - held);
      for (int64_t i = 0; i < take; ++i) {
        rows.push_back(
            {values_.tokens[held + i], static_cast<int32_t>(held + i), ids[s], random() % 4 != 0, 0});
        if (rows.back().wants_logits) positions.push_back(held + i);
      }
    }
    if (rows.empty()) continue;
    ASSERT_TRUE(engine->step(rows).ok());
    for (size_t i = 0; i < positions.size(); ++i, ++compared) {
      ASSERT_EQ(std::memcmp(engine->logits(static_cast<int>(i)).data(),
                            alone.data() + positions[i] * vocabulary, vocabulary * sizeof(float)),
                0)
          << "step " << step << ", position " << positions[i] << " of " << rows.size() << " rows";
    }
  }
  EXPECT_GT(compared, 500);
}

// Where recurrent layers cannot go back by themselves, snapshots lead.
TEST_P(OrderTest, ReenteringACachedPrefix) {
  auto engine = open(2);
  const std::vector<float> fresh = run(*engine, 64);
  const size_t vocabulary = static_cast<size_t>(values_.vocabulary);
  const auto total = static_cast<int64_t>(values_.tokens.size());
  const int32_t sequence = engine->create_sequence().value();
  const auto feed_with_snapshots = [&](int64_t begin, int64_t chunk, std::vector<float>* logits) {
    for (int64_t stop :
         {int64_t{1}, int64_t{37}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{100}, total}) {
      if (stop <= begin) continue;
      feed(*engine, sequence, values_.tokens, begin, stop, chunk, logits);
      ASSERT_TRUE(engine->take_snapshot(sequence));
      begin = stop;
    }
  };
  feed_with_snapshots(0, 64, nullptr);
  for (int64_t keep : {64, 1, 63, 65, 37, 100}) {
    ASSERT_EQ(engine->reentry_position(sequence, keep), keep);
    const int32_t forked = engine->fork_sequence(sequence, keep).value();
    std::vector<float> logits;
    feed(*engine, forked, values_.tokens, keep, total, 13, &logits);
    EXPECT_EQ(std::memcmp(logits.data(), fresh.data() + static_cast<size_t>(keep) * vocabulary,
                          logits.size() * sizeof(float)),
              0)
        << "forked at " << keep;
    engine->release_sequence(forked);
    engine->truncate(sequence, keep);
    logits.clear();
    feed_with_snapshots(keep, 1, &logits);
    EXPECT_EQ(std::memcmp(logits.data(), fresh.data() + static_cast<size_t>(keep) * vocabulary,
                          logits.size() * sizeof(float)),
              0)
        << "cut back to " << keep;
  }
}

// Rows that speculation rejects: the last rows of a step are forgotten, without a snapshot.
TEST_P(OrderTest, RejectedRowsWereNeverThere) {
  auto engine = open(2);
  const std::vector<float> fresh = run(*engine, 64);
  const size_t vocabulary = static_cast<size_t>(values_.vocabulary);
  const auto total = static_cast<int64_t>(values_.tokens.size());
  const int32_t sequence = engine->create_sequence().value();
  std::mt19937 random(17);
  for (int64_t held = 0; held + 8 < total;) {
    std::vector<Row> rows;
    const int64_t right = 1 + static_cast<int64_t>(random() % 4);
    for (int64_t i = 0; i < right + 4; ++i) {
      const int32_t token = i < right ? values_.tokens[static_cast<size_t>(held + i)] : 5;
      rows.push_back({token, static_cast<int32_t>(held + i), sequence, true, 0});
    }
    ASSERT_TRUE(engine->step(rows).ok());
    for (int64_t i = 0; i < right; ++i) {
      ASSERT_EQ(
          std::memcmp(engine->logits(static_cast<int>(i)).data(),
                      fresh.data() + static_cast<size_t>(held + i) * vocabulary, vocabulary * sizeof(float)),
          0)
          << "position " << held + i;
    }
    held += right;
    ASSERT_EQ(engine->reentry_position(sequence, held), held);
    engine->truncate(sequence, held);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, OrderTest, ::testing::ValuesIn(kCases), [](const auto& tested) {
  std::string name = tested.param.checkpoint;
  if (tested.param.kv == KvQuantization::eight_bits) name += "_kv8";
  if (tested.param.kv == KvQuantization::four_bits) name += "_kv4";
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// A copy of a checkpoint whose config allows 2048 positions: the tiny ones stop at 512, where the second
// split ends.
std::string with_longer_context(const std::string& path) {
  const std::filesystem::path copy = std::filesystem::path(::testing::TempDir()) / "rafter-longer-context";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(path, copy, std::filesystem::copy_options::recursive);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(copy / "config.json"));
  config["max_position_embeddings"] = 2048;
  std::ofstream(copy / "config.json") << config.dump();
  return copy.string();
}

// Bound once, run at every length from 1 to its capacity, beyond two splits and many blocks; each length is
// compared with an engine that was bound afresh.
TEST(GrowthTest, BoundOnceStaysRightAtEveryLength) {
  const OracleCase* found = find_oracle_case("qwen3-256/mlx4-g64");
  if (found == nullptr) GTEST_SKIP() << "no oracle data: run make oracle";
  const std::string path = with_longer_context(found->path);
  constexpr int64_t kLength = 600;  // 2 splits of 256 and 9 blocks of 64 are passed
  std::mt19937 random(5);
  std::vector<int32_t> tokens(kLength);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 320);
  EngineOptions options;
  options.threads = 2;
  options.row_capacity = 512;
  options.context_limit = kLength;
  options.max_sequences = 4;

  auto engine = open_engine(path, options);
  const int32_t sequence = engine->create_sequence().value();
  std::vector<float> logits;
  feed(*engine, sequence, tokens, 0, kLength, 1, &logits);
  const size_t vocabulary = static_cast<size_t>(engine->vocabulary_size());
  // Full: the next row is refused and changes nothing.
  const Row over{0, static_cast<int32_t>(kLength), sequence, true, 0};
  const base::Status refused = engine->step({&over, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().message().find("600"), std::string::npos) << refused.error().message();
  EXPECT_EQ(engine->length(sequence), kLength);

  // Every length against one engine that was bound afresh and took the tokens in other cuts.
  auto in_cuts = open_engine(path, options);
  std::vector<float> same;
  feed(*in_cuts, in_cuts->create_sequence().value(), tokens, 0, kLength, 67, &same);
  ASSERT_EQ(same.size(), logits.size());
  for (int64_t length = 1; length <= kLength; ++length) {
    const size_t row = static_cast<size_t>(length - 1) * vocabulary;
    ASSERT_EQ(std::memcmp(same.data() + row, logits.data() + row, vocabulary * sizeof(float)), 0)
        << "length " << length;
  }

  // Around every boundary against an engine that was bound for this length alone.
  std::set<int64_t> lengths = {1, 2, 31, 300, kLength - 1, kLength};
  for (int64_t end = 64; end < kLength; end += 64) lengths.insert({end - 1, end, end + 1});
  for (int64_t length : lengths) {
    auto fresh = open_engine(path, options);
    const int32_t other = fresh->create_sequence().value();
    std::vector<float> expected;
    if (length > 1) feed(*fresh, other, tokens, 0, length - 1, 512, nullptr);
    feed(*fresh, other, tokens, length - 1, length, 1, &expected);
    ASSERT_EQ(std::memcmp(expected.data(), logits.data() + static_cast<size_t>(length - 1) * vocabulary,
                          vocabulary * sizeof(float)),
              0)
        << "length " << length;
  }
}

}  // namespace
}  // namespace rafter::testing

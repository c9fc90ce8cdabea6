// Prefill of a long prompt takes memory for its cache and no more: what the process holds grows by the
// cache's own bytes per position, and nothing as large as a matrix of scores is ever there.
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr int64_t kLengths[] = {1024, 2048, 4096};  // its shadow memory grows too, and kernels are slow
#else
constexpr int64_t kLengths[] = {8192, 16384, 32768};
#endif
constexpr int kRows = 512;

// A figure of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// The peak begins anew at what is resident.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5\n"; }

// The tiny shapes say fewer positions than are asked for here.
void allow_positions(const std::string& folder) {
  std::string config = read_file(folder + "/config.json");
  const size_t at = config.find("\"max_position_embeddings\": 4096");
  if (at == std::string::npos) return;
  config.replace(at, 31, "\"max_position_embeddings\": 65536");
  std::ofstream(folder + "/config.json") << config;
}

class LongContext : public ::testing::TestWithParam<const char*> {};

TEST_P(LongContext, PrefillIsLinearInMemory) {
  const TempFolder folder;
  const std::string path = write_synth_model(GetParam(), "mlx8", folder / "model");
  allow_positions(path);
  engine::EngineOptions options;
  options.context_limit = kLengths[2] + 1;
  options.max_sequences = 1;
  options.row_capacity = kRows;
  auto checkpoint = std::make_shared<const format::Checkpoint>(format::Checkpoint::open(path).value());
  const auto engine = engine::Engine::open(checkpoint, options).value();
  const int32_t sequence = engine->create_sequence().value();

  std::vector<engine::Row> rows(kRows);
  const auto prefill_to = [&](int64_t length) {
    for (int64_t at = engine->length(sequence); at < length; at += kRows) {
      for (int64_t i = 0; i < kRows; ++i) {
        const auto position = static_cast<int32_t>(at + i);
        rows[static_cast<size_t>(i)] = {3 + position * 37 % 400, position, sequence, at + i + 1 == length, 0};
      }
      ASSERT_TRUE(engine->step(rows).ok());
    }
  };
  prefill_to(kLengths[0] / 2);  // plans bound, scratch and weights touched
  const int64_t held = status_bytes("VmRSS"), cached = engine->cache_bytes_in_use();
  for (int64_t length : kLengths) {
    reset_peak();
    prefill_to(length);
    const int64_t grown = status_bytes("VmHWM") - held;
    const int64_t cache = engine->cache_bytes_in_use() - cached;
    std::printf("%s: %lld positions, peak %+.1f MB, of it cache %.1f MB\n", GetParam(),
                static_cast<long long>(length), static_cast<double>(grown) / 1e6,
                static_cast<double>(cache) / 1e6);
    // One head's scores of one step would take kRows · length · 4 bytes: at the longest, more than this.

    EXPECT_LT(grown - cache, 8 << 20);
  }
  for (float value : engine->logits(0)) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Tiny, LongContext,
                         ::testing::Values("llama3-tiny", "gemma4-e4b-tiny", "qwen3.5-4b-tiny"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace rafter::testing

// A short run of one fuzz target as a test: its seeds, then random mutations of them for a second. It needs
// no libFuzzer, so every build runs it, sanitizers included; long runs are `make fuzz`.
#include <chrono>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace rafter {
namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string mutated(std::string text, const std::string& other, std::mt19937& random) {
  for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    const size_t size = 1 + random() % 8;
    switch (random() % 6) {
      case 0:
        text.erase(at, size);
        break;
      case 1:
        text.insert(at, size, static_cast<char>(random()));
        break;
      case 2:
        text.insert(at, text.substr(random() % (text.size() + 1), size));
        break;
      case 3:
        if (!other.empty()) text.insert(at, other.substr(random() % other.size(), 4 * size));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        if (!text.empty()) text[at] = static_cast<char>(random());
    }
  }
  return text;
}

TEST(ShortFuzz, SeedsAndTheirMutations) {
  std::vector<std::string> seeds = {"", std::string(1, '\0'), "{}", "text"};
  if (fuzz_seeds != nullptr) {
    for (std::string& seed : fuzz_seeds()) seeds.push_back(std::move(seed));
  }
  for (const std::string& seed : seeds) run(seed);
  std::mt19937 random(1);
  size_t runs = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    run(mutated(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
  }
  EXPECT_GT(runs, 10u);
}

}  // namespace
}  // namespace rafter

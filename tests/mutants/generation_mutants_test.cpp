// Planted faults in the engine below the generation loop: the loop's checkers must see them.
#include <gtest/gtest.h>

#include "tests/support/generation_checks.h"

namespace rafter::decode {
namespace {

// Gives the neighbour's logits when two rows want some.
class SwappedLogits final : public FakeEngine {
 public:
  using FakeEngine::FakeEngine;
  std::span<const float> logits(int i) const override { return FakeEngine::logits(i == 1 ? 0 : i); }
};

// Loses the first position of a prefix that is kept.
class SpoiledPrefix final : public FakeEngine {
 public:
  using FakeEngine::FakeEngine;
  void truncate(int32_t sequence, int64_t length) override {
    FakeEngine::truncate(sequence, length);
    if (length > 1) sequences.at(sequence).front() = 99;
  }
};

TEST(GenerationMutants, ANeighboursLogitsAreCaught) {
  SwappedLogits engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  EXPECT_NE(company_differences(engine, 0), "");
}

TEST(GenerationMutants, ADependenceOnTheStepIsCaught) {
  int calls = 0;
  const auto model = [&calls](std::span<const int32_t> tokens) {
    auto logits = hashing_model(kVocabulary)(tokens);
    logits[0] += 0.1f * static_cast<float>(++calls % 50);
    return logits;
  };
  FakeEngine engine(kVocabulary, 4096, 64, model);
  EXPECT_NE(company_differences(engine, 0), "");
}

TEST(GenerationMutants, AChangedPrefixIsCaught) {
  SpoiledPrefix engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  EXPECT_NE(reuse_differences(engine, 1), "");
}

}  // namespace
}  // namespace rafter::decode

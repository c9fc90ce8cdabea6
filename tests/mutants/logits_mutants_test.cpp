// Planted faults that the logit comparer must catch.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "tests/models/oracle_data.h"

namespace rafter::testing {
namespace {

constexpr size_t kRows = 65, kVocabulary = 320;
using Logits = std::vector<float>;  // [kRows, kVocabulary]

Logits noise(uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, scale);
  Logits values(kRows * kVocabulary);
  for (float& value : values) value = normal(random);
  return values;
}

Logits sum(Logits a, const Logits& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

LogitError error_of(const Logits& truth, const Logits& logits, double margin, size_t rows = kRows) {
  LogitError error;
  for (size_t t = 0; t < rows; ++t) {
    error.add_row({&truth[t * kVocabulary], kVocabulary}, {&logits[t * kVocabulary], kVocabulary}, margin);
  }
  return error;
}

class LogitsMutants : public ::testing::Test {
 protected:
  // The two bounds of logits_test.cpp, for logits that a fault was planted in.
  std::string precise_fault(const std::function<void(Logits&)>& plant) const {
    Logits logits = sum(truth_, noise(2, 1e-5f));
    plant(logits);
    const double bound = 1e-3 * witness_error_.max_logit;
    return error_of(truth_, logits, bound).fault(bound, INFINITY);
  }
  std::string default_fault(const std::function<void(Logits&)>& plant) const {
    Logits logits = sum(truth_, noise(3, 0.02f));
    plant(logits);
    const double bound = 2 * witness_error_.max_delta;
    return error_of(truth_, logits, bound).fault(bound, 2 * witness_error_.mean_kl());
  }
  void expect_caught(const char* name, const std::function<void(Logits&)>& plant) const {
    EXPECT_NE(precise_fault(plant), "") << name;
    EXPECT_NE(default_fault(plant), "") << name;
  }

  const Logits truth_ = noise(1, 2);
  const LogitError witness_error_ = error_of(truth_, sum(truth_, noise(4, 0.02f)), 0);
};

TEST_F(LogitsMutants, SoundLogitsPass) {
  EXPECT_EQ(precise_fault([](Logits&) {}), "");
  EXPECT_EQ(default_fault([](Logits&) {}), "");
}

TEST_F(LogitsMutants, WrongValuesAreCaught) {
  expect_caught("one logit", [](Logits& x) { x[20 * kVocabulary + 7] += 0.5f; });
  expect_caught("the last logit", [](Logits& x) { x.back() -= 0.5f; });
  expect_caught("another sign", [](Logits& x) {
    for (float& value : x) value = -value;
  });
  expect_caught("the next row", [](Logits& x) { std::rotate(x.begin(), x.begin() + kVocabulary, x.end()); });
  expect_caught("the next token", [](Logits& x) { std::rotate(x.begin(), x.begin() + 1, x.end()); });
  expect_caught("another temperature", [](Logits& x) {
    for (float& value : x) value *= 1.05f;
  });
  expect_caught("a constant", [](Logits& x) {  // which no distribution shows
    for (float& value : x) value += 1;
  });
}

TEST_F(LogitsMutants, ValuesThatAreNotFiniteAreCaught) {
  for (float wrong : {NAN, INFINITY, -INFINITY}) {
    expect_caught("not finite", [wrong](Logits& x) { x[11] = wrong; });
    expect_caught("not finite, last", [wrong](Logits& x) { x.back() = wrong; });
  }
}

// Every value within the bound, and yet wider of the truth in the mean than twice the witness.
TEST_F(LogitsMutants, AMeanThatIsOffIsCaught) {
  const double bound = 2 * witness_error_.max_delta;
  const std::string fault = default_fault([&](Logits& x) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = truth_[i] + static_cast<float>((i % 2 == 0 ? 0.9 : -0.9) * bound);
  });
  EXPECT_NE(fault.find("mean KL"), std::string::npos) << fault;
}

// A wrong choice needs no wrong value where the bound is as wide as the margin: it is judged by the margin.
TEST_F(LogitsMutants, GreedyChoicesAreJudgedByTheMargin) {
  const LogitError sound = error_of(truth_, truth_, 0.1);
  EXPECT_GT(sound.greedy_judged, 40);
  EXPECT_LT(sound.greedy_judged, static_cast<int64_t>(kRows));  // rows below the margin are not judged
  Logits swapped = truth_;
  for (size_t t = 0; t < kRows; ++t) {
    const auto row = swapped.begin() + static_cast<long>(t * kVocabulary);
    std::iter_swap(std::max_element(row, row + kVocabulary), row);
  }
  const std::string fault = error_of(truth_, swapped, 0.1).fault(INFINITY, INFINITY);
  EXPECT_NE(fault.find("greedy choices"), std::string::npos) << fault;
}

TEST_F(LogitsMutants, NothingComparedIsAFault) {
  EXPECT_NE(error_of(truth_, truth_, 0, /*rows=*/0).fault(INFINITY, INFINITY), "");
}

}  // namespace
}  // namespace rafter::testing

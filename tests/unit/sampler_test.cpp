#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "decode/random.h"
#include "decode/softmax.h"
#include "tests/support/sampler_vectors.h"

namespace rafter::decode {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Filtered library_pipeline(const SamplerCase& c) {
  Filtered out;
  out.logprobs = c.logits;
  LogitProcessors(c.params).apply(out.logprobs, c.history);
  const float normalizer = log_sum_exp(out.logprobs, find_largest(out.logprobs).value);
  for (float& logit : out.logprobs) logit -= normalizer;
  TokenSet set = filter_tokens(out.logprobs, c.params, 0.0);
  if (set.everything) {
    set.ids.resize(out.logprobs.size());
    std::iota(set.ids.begin(), set.ids.end(), 0);
  }
  std::sort(set.ids.begin(), set.ids.end());
  out.kept = set.ids;
  return out;
}

int32_t sample_at(SamplingParams params, uint64_t seed, uint64_t step, std::span<const float> logits,
                  std::span<const int32_t> history) {
  params.seed = seed;
  Sampler sampler(params);
  SamplerScratch scratch;
  int32_t token = -1;
  for (uint64_t i = 0; i <= step; ++i) token = sampler.sample(logits, history, scratch)->token;
  return token;
}

TEST(Sampler, FiltersAndLogprobsMatchTheVectors) {
  const auto cases = load_sampler_cases();
  ASSERT_GE(cases.size(), 50u);
  for (const SamplerCase& c : cases) {
    EXPECT_EQ(count_failures({c}, library_pipeline), 0) << c.text;
  }
}

TEST(Sampler, DrawsMatchTheVectors) {
  for (const SamplerCase& c : load_sampler_cases()) {
    for (const auto& draw : c.draws) {
      EXPECT_EQ(sample_at(c.params, draw.seed, draw.step, c.logits, c.history), draw.token)
          << "seed " << draw.seed << " step " << draw.step << " of " << c.text;
    }
  }
}

TEST(Sampler, WindowsFollowAGrowingHistory) {
  std::mt19937 random(7);
  for (int32_t length : {0, 1, 2, 5, 20}) {
    TokenWindow window(length);
    std::vector<int32_t> history;
    for (int i = 0; i < 60; ++i) {
      const size_t added = random() % 4;
      for (size_t n = 0; n < added; ++n) history.push_back(static_cast<int32_t>(random() % 6));
      window.update(history);
      std::unordered_map<int32_t, int32_t> expected;
      const size_t begin = length == 0 ? 0 : history.size() - std::min<size_t>(history.size(), length);
      for (size_t n = begin; n < history.size(); ++n) ++expected[history[n]];
      ASSERT_EQ(window.counts(), expected) << "window " << length << " after " << history.size();
    }
  }
}

// The categorical draw against its distribution: χ² with 15 degrees of freedom; 44.3 is passed once in
// 10,000.
TEST(Sampler, DrawsFollowTheSoftmax) {
  std::vector<float> logits(16);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i) * 1.7f) * 1.5f;
  for (float temperature : {0.7f, 1.0f, 2.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    std::vector<double> expected(logits.size());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) sum += expected[i] = std::exp(logits[i] / temperature);
    for (bool over_steps : {false, true}) {  // many steps of one seed, the first step of many seeds
      constexpr int kDraws = 40000;
      std::vector<int> counts(logits.size());
      SamplerScratch scratch;
      params.seed = 99;
      Sampler stepping(params);
      for (int n = 0; n < kDraws; ++n) {
        params.seed = static_cast<uint64_t>(n);
        Sampler fresh(params);
        Sampler& sampler = over_steps ? stepping : fresh;
        ++counts[static_cast<size_t>(sampler.sample(logits, {}, scratch)->token)];
      }
      double chi_squared = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        const double mean = kDraws * expected[i] / sum;
        chi_squared += (counts[i] - mean) * (counts[i] - mean) / mean;
      }
      EXPECT_LT(chi_squared, 44.3) << "temperature " << temperature << (over_steps ? ", steps" : ", seeds");
    }
  }
}

TEST(Sampler, TopPOnALargeVocabularyEqualsAFullSort) {
  std::mt19937 random(3);
  for (float spread : {0.0f, 0.1f, 1.0f, 4.0f}) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> logprobs(20000);
    for (float& value : logprobs) value = spread == 0 ? 0 : normal(random);
    const float normalizer = log_sum_exp(logprobs, find_largest(logprobs).value);
    for (float& value : logprobs) value -= normalizer;
    std::vector<int32_t> order(logprobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const float left = logprobs[static_cast<size_t>(a)], right = logprobs[static_cast<size_t>(b)];
      return left != right ? left > right : a > b;
    });
    for (float top_p : {0.001f, 0.3f, 0.9f, 0.999f}) {
      std::vector<int32_t> expected;
      double mass = 0;
      for (int32_t id : order) {
        if (mass >= top_p) break;
        expected.push_back(id);
        mass += std::exp(static_cast<double>(logprobs[static_cast<size_t>(id)]));
      }
      TokenSet set;
      keep_top_p(logprobs, top_p, set);
      EXPECT_EQ(set.ids, expected) << "spread " << spread << " top_p " << top_p;
    }
  }
}

TEST(Sampler, TopKOnALargeVocabularyEqualsAFullSort) {
  std::mt19937 random(4);
  std::vector<float> logprobs(20000);
  for (float& value : logprobs) value = -static_cast<float>(random() % 700);  // many equals
  std::vector<int32_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float left = logprobs[static_cast<size_t>(a)], right = logprobs[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  for (int32_t k : {1, 2, 40, 1000, 19999, 20000, 30000}) {
    const auto best = best_tokens(logprobs, k);
    const std::vector<int32_t> expected(order.begin(), order.begin() + std::min(k, 20000));
    EXPECT_EQ(best, expected) << k;
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  std::vector<float> logits(100, -1.0f);
  logits[40] = logits[41] = logits[99] = 2.0f;
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(sample_at(params, 1, 0, logits, {}), 40);
}

TEST(Sampler, LogitsThatAreNotFiniteEndTheRequest) {
  SamplingParams params;
  SamplerScratch scratch;
  for (float temperature : {0.0f, 1.0f}) {
    params.temperature = temperature;
    for (float bad : {std::nanf(""), kInfinity}) {
      for (size_t position : {size_t{0}, size_t{17}, size_t{49}}) {
        std::vector<float> logits(50, 0.5f);
        logits[position] = bad;
        auto sample = Sampler(params).sample(logits, {}, scratch);
        ASSERT_FALSE(sample.ok()) << bad << " at " << position;
        EXPECT_EQ(sample.error().code, base::ErrorCode::internal);
      }
    }
    std::vector<float> masked(50, -kInfinity);
    EXPECT_FALSE(Sampler(params).sample(masked, {}, scratch).ok());
    masked[33] = -4.0f;
    EXPECT_EQ(Sampler(params).sample(masked, {}, scratch)->token, 33);
  }
}

TEST(Sampler, AskingForLogprobsDoesNotChangeTheDraw) {
  for (const SamplerCase& c : load_sampler_cases()) {
    SamplingParams with = c.params;
    with.top_logprobs = 3;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      EXPECT_EQ(sample_at(with, seed, 2, c.logits, c.history),
                sample_at(c.params, seed, 2, c.logits, c.history));
    }
    SamplerScratch scratch;
    const Sample sample = Sampler(with).sample(c.logits, c.history, scratch).value();
    ASSERT_EQ(sample.best.size(), 3u);
    EXPECT_GE(sample.best[0].logprob, sample.best[1].logprob);
    EXPECT_NEAR(*sample.logprob, c.logprobs[static_cast<size_t>(sample.token)], 1e-5);
  }
}

TEST(Sampler, FreshSeedsDiffer) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 10000; ++i) seeds.insert(fresh_seed());
  EXPECT_EQ(seeds.size(), 10000u);
  SamplingParams params;
  EXPECT_NE(Sampler(params).seed(), Sampler(params).seed());
  params.seed = 12;
  EXPECT_EQ(Sampler(params).seed(), 12u);
}

TEST(Sampler, ExponentialsAreAccurate) {
  std::vector<float> values, out;
  for (float x = -100; x <= 0; x += 0.0137f) values.push_back(x);
  values.push_back(-kInfinity);
  out.resize(values.size());
  double expected = 0;
  const double sum = exponentials(values, 0, 1, out);
  for (size_t i = 0; i < values.size(); ++i) {
    const double truth = values[i] < -87 ? 0 : std::exp(static_cast<double>(values[i]));
    EXPECT_NEAR(out[i], truth, 3e-7 * truth) << values[i];
    expected += truth;
  }
  EXPECT_NEAR(sum, expected, 1e-6 * expected);
}

TEST(SamplingParams, RangesAreChecked) {
  const auto field_of = [](auto change) {
    SamplingParams params;
    change(params);
    const base::Status status = validate(params, 100);
    return status.ok() ? std::string("ok") : status.error().where;
  };
  const float nan = std::nanf("");
  EXPECT_EQ(field_of([](SamplingParams&) {}), "ok");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.temperature = -0.1f; }), "temperature");
  EXPECT_EQ(field_of([&](SamplingParams& p) { p.temperature = nan; }), "temperature");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.top_p = 1.5f; }), "top_p");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.min_p = -1; }), "min_p");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.xtc_threshold = 0.6f; }), "xtc_threshold");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.repetition.strength = -1; }), "repetition_penalty");
  EXPECT_EQ(field_of([&](SamplingParams& p) { p.presence.strength = nan; }), "presence_penalty");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.frequency.window = -3; }), "frequency_context_size");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.top_logprobs = 21; }), "top_logprobs");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.logit_bias = {{100, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(field_of([](SamplingParams& p) { p.logit_bias = {{-1, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(field_of([&](SamplingParams& p) { p.logit_bias = {{1, kInfinity}}; }), "logit_bias");
}

}  // namespace
}  // namespace rafter::decode

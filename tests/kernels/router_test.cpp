// The router of every tier against the reference, and the rules that both must follow: order, ties, weights.
#include <numeric>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/kernels/matmul_check.h"

namespace rafter::kernels::testing {
namespace {

std::vector<Route> route(const KernelTable& table, RouterArgs args, const std::vector<float>& logits,
                         int threads = 1) {
  const auto rows = static_cast<int32_t>(logits.size() / args.experts);
  GuardedBuffer<Route> routes(static_cast<size_t>(rows * args.chosen));
  args.rows = &rows;
  args.logits = logits.data();
  args.routes = routes.data();
  TestTeam team(threads);
  team.run(table.router, args);
  RAFTER_CHECK(routes.damage().empty(), "{}", routes.damage());
  return {routes.data(), routes.data() + routes.size()};
}

RouterArgs shape(int32_t experts, int32_t chosen, RouterWeights weights, bool normalize) {
  RouterArgs args;
  args.experts = experts;
  args.chosen = chosen;
  args.weights = weights;
  args.normalize = normalize;
  return args;
}

class Router : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  std::vector<KernelTable> tables() const { return {tier_kernels(GetParam()), reference_kernels()}; }
};

TEST_P(Router, MatchesTheReference) {
  for (const auto& [experts, chosen] : {std::pair{1, 1}, {8, 2}, {128, 8}, {100, 64}, {64, 64}}) {
    const std::vector<float> logits = random_values(static_cast<size_t>(17 * experts), 3, 4.0f);
    const std::vector<float> expert_scale = random_values(static_cast<size_t>(experts), 4);
    for (auto weights : {RouterWeights::softmax, RouterWeights::softmax_chosen, RouterWeights::sigmoid}) {
      for (bool normalize : {false, true}) {
        for (const float* scale : {static_cast<const float*>(nullptr), expert_scale.data()}) {
          RouterArgs args = shape(experts, chosen, weights, normalize);
          args.expert_scale = scale;
          args.scale = scale != nullptr ? 2.5f : 1.0f;
          const std::vector<Route> expected = route(reference_kernels(), args, logits);
          for (int threads : {1, 2, 4}) {
            const std::vector<Route> actual = route(tables()[0], args, logits, threads);
            for (size_t i = 0; i < expected.size(); ++i) {
              ASSERT_EQ(actual[i].expert, expected[i].expert) << i;
              ASSERT_FLOAT_EQ(actual[i].weight, expected[i].weight) << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(Router, BreaksTiesByTheLowestIndex) {
  for (const KernelTable& table : tables()) {
    const std::vector<float> logits = {1, 3, 3, 2, 3, 2, 0, 2};
    const std::vector<Route> routes = route(table, shape(8, 5, RouterWeights::softmax, true), logits);
    const int32_t expected[] = {1, 2, 4, 3, 5};
    for (int j = 0; j < 5; ++j) EXPECT_EQ(routes[j].expert, expected[j]) << table.name;
    EXPECT_EQ(routes[0].weight, routes[2].weight);
  }
}

TEST_P(Router, WeighsAsItsRuleSays) {
  for (const KernelTable& table : tables()) {
    const std::vector<float> logits = {std::log(1.0f), std::log(4.0f), std::log(3.0f), std::log(2.0f)};
    const auto weights = [&](RouterWeights rule, bool normalize) {
      const std::vector<Route> routes = route(table, shape(4, 2, rule, normalize), logits);
      EXPECT_EQ(routes[0].expert, 1);
      EXPECT_EQ(routes[1].expert, 2);
      return std::pair{routes[0].weight, routes[1].weight};
    };
    const auto expect = [&](std::pair<float, float> actual, float first, float second) {
      EXPECT_FLOAT_EQ(actual.first, first) << table.name;
      EXPECT_FLOAT_EQ(actual.second, second) << table.name;
    };
    expect(weights(RouterWeights::softmax, false), 0.4f, 0.3f);
    expect(weights(RouterWeights::softmax, true), 4.0f / 7, 3.0f / 7);
    expect(weights(RouterWeights::softmax_chosen, false), 4.0f / 7, 3.0f / 7);
    expect(weights(RouterWeights::sigmoid, false), 0.8f, 0.75f);
    expect(weights(RouterWeights::sigmoid, true), 0.8f / 1.55f, 0.75f / 1.55f);
  }
}

TEST_P(Router, ChoosesExistingExpertsWhateverTheLogits) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const KernelTable& table : tables()) {
    const std::vector<float> logits = {nan, 1, nan, -infinity, nan, infinity};
    const std::vector<Route> routes = route(table, shape(6, 4, RouterWeights::softmax, false), logits);
    const int32_t expected[] = {5, 1, 3, 0};
    for (int j = 0; j < 4; ++j) EXPECT_EQ(routes[j].expert, expected[j]) << table.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, Router, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

}  // namespace
}  // namespace rafter::kernels::testing

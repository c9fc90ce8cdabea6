// The checks of the experts op must catch wrong ones: the right kernel runs on what a wrong one would read,
// and each fault has to show.
#include <functional>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/kernels/experts_check.h"

namespace rafter::kernels::testing {
namespace {

using tensor::DType;
using tensor::NumberFormat;

constexpr int32_t kRows = 6;

struct Spoilt {
  Mixture& mixture;
  std::vector<float>& x;
  std::vector<Route>& routes;
  ExpertsArgs& args;
};

class ExpertsMutants : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  struct Verdicts {
    bool values, bits;
  };

  // Whether the comparisons accept the spoilt call in place of the right one.
  Verdicts accepted(const std::function<void(Spoilt)>& spoil) {
    const NumberFormat bf16 = NumberFormat::plain(DType::bf16);  // no parts that cancel: the tightest bounds
    Mixture mixture({bf16, bf16, bf16});
    std::vector<float> x = random_values(static_cast<size_t>(kRows * mixture.width()), 31);
    std::vector<Route> routes = random_routes(kRows, 32);
    const KernelTable table = tier_kernels(GetParam());
    const ExpectedProduct expected = expect_experts(mixture, kRows, x, routes);
    const std::vector<float> composed =
        compose_experts(table, mixture, MatmulPrecision::fp32_inputs, kRows, x.data(), routes.data());
    ExpertsArgs args = mixture.args(MatmulPrecision::fp32_inputs);
    spoil({mixture, x, routes, args});
    TestTeam two(2);
    const std::vector<float> actual = run_experts(table, two, args, kRows, x.data(), routes.data());
    return {compare_values(actual, expected.values, static_cast<size_t>(args.width), expected.bounds).ok,
            compare_bits(actual, composed).ok};
  }
  void expect_caught(const std::function<void(Spoilt)>& spoil) {
    const Verdicts verdicts = accepted(spoil);
    EXPECT_FALSE(verdicts.values);
    EXPECT_FALSE(verdicts.bits);
  }
};

TEST_P(ExpertsMutants, NothingSpoiltIsAccepted) {
  const Verdicts verdicts = accepted([](Spoilt) {});
  EXPECT_TRUE(verdicts.values);
  EXPECT_TRUE(verdicts.bits);
}

TEST_P(ExpertsMutants, AnotherExpert) {
  expect_caught([](Spoilt s) { std::swap(s.routes[0].expert, s.routes[1].expert); });
}

TEST_P(ExpertsMutants, OneRoleOfTheNextExpert) {
  expect_caught([](Spoilt s) {
    std::rotate(s.mixture.up().begin(), s.mixture.up().begin() + 1, s.mixture.up().end() - 1);
  });
}

TEST_P(ExpertsMutants, GateAndUpExchanged) {
  expect_caught([](Spoilt s) { std::swap(s.args.gate, s.args.up); });
}

TEST_P(ExpertsMutants, AnotherActivation) {
  expect_caught([](Spoilt s) { s.args.activation = GatedActivation::geglu; });
}

TEST_P(ExpertsMutants, UnweightedTerm) {
  expect_caught([](Spoilt s) { s.routes[4].weight = 1.2f; });
}

TEST_P(ExpertsMutants, LastTermForgotten) {
  expect_caught([](Spoilt s) { s.routes[Mixture::kChosen - 1].weight = 0; });
}

TEST_P(ExpertsMutants, RowsExchanged) {
  expect_caught([](Spoilt s) {
    std::swap_ranges(s.x.begin(), s.x.begin() + s.args.width, s.x.begin() + s.args.width);
  });
}

TEST_P(ExpertsMutants, SumInAnotherOrder) {
  const Verdicts verdicts = accepted([](Spoilt s) {
    for (int32_t r = 0; r < kRows; ++r) {
      std::reverse(s.routes.begin() + r * Mixture::kChosen, s.routes.begin() + (r + 1) * Mixture::kChosen);
    }
  });
  EXPECT_TRUE(verdicts.values);  // as exact …
  EXPECT_FALSE(verdicts.bits);   // … but not the contract's order
}

INSTANTIATE_TEST_SUITE_P(, ExpertsMutants, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

}  // namespace
}  // namespace rafter::kernels::testing

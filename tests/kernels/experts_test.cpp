// The experts op of every tier and number format: against the reference with derived bounds, against the
// separate ops bit for bit, and against itself: rows alone and in company, any number of workers. What no row
// chose is not read.
#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/kernels/experts_check.h"

namespace rafter::kernels::testing {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

std::vector<ExpertFormats> all_formats() {
  std::vector<ExpertFormats> formats;
  for (const NumberFormat& format : all_matmul_formats()) formats.push_back({format, format, format});
  const NumberFormat q4 = NumberFormat::affine(4, 64, DType::bf16);
  const NumberFormat q8 = NumberFormat::affine(8, 64, DType::bf16);
  formats.push_back({q4, q4, q8});  // mixed layouts
  formats.push_back({q8, NumberFormat::plain(DType::bf16), q4});
  formats.push_back({NumberFormat::block(FormatKind::q4_0), NumberFormat::block(FormatKind::q4_0),
                     NumberFormat::block(FormatKind::q6_k)});
  return formats;
}

std::string shown(const ExpertFormats& formats, int32_t rows) {
  return fmt::format("{} {} {} ({}), {} rows", formats.gate.name(), formats.up.name(), formats.down.name(),
                     tensor::dtype_name(formats.gate.scale_type), rows);
}

constexpr int32_t kRowCounts[] = {1, 2, 4, 5, 9, 33};
constexpr int32_t kMostRows = 33;

class Experts : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  Experts() : table_(tier_kernels(GetParam())) {}
  KernelTable table_;
};

TEST_P(Experts, MatchTheReference) {
  for (const ExpertFormats& formats : all_formats()) {
    for (GatedActivation activation : {GatedActivation::swiglu, GatedActivation::geglu}) {
      const Mixture mixture(formats, activation);
      const int32_t rows = 5;
      const std::vector<float> x = random_values(static_cast<size_t>(rows * mixture.width()), 7);
      const std::vector<Route> routes = random_routes(rows, 8);
      const ExpectedProduct expected = expect_experts(mixture, rows, x, routes);
      TestTeam one(1);
      const std::vector<float> actual =
          run_experts(table_, one, mixture.args(MatmulPrecision::fp32_inputs), rows, x.data(), routes.data());
      const Verdict verdict =
          compare_values(actual, expected.values, static_cast<size_t>(mixture.width()), expected.bounds);
      EXPECT_TRUE(verdict.ok) << shown(formats, rows) << ": " << verdict.message;
    }
  }
}

TEST_P(Experts, AreTheSeparateOpsBitForBit) {
  for (const ExpertFormats& formats : all_formats()) {
    const Mixture mixture(formats);
    const std::vector<float> x = random_values(static_cast<size_t>(kMostRows * mixture.width()), 9);
    const std::vector<Route> routes = random_routes(kMostRows, 10);
    for (MatmulPrecision precision : {MatmulPrecision::bf16_inputs, MatmulPrecision::fp32_inputs}) {
      const std::vector<float> expected =
          compose_experts(table_, mixture, precision, kMostRows, x.data(), routes.data());
      for (int32_t rows : kRowCounts) {
        for (int threads : {1, 2, 4}) {
          if (threads != 2 && rows != 5) continue;
          TestTeam team(threads);
          const std::vector<float> actual =
              run_experts(table_, team, mixture.args(precision), rows, x.data(), routes.data());
          const Verdict verdict =
              compare_bits(actual, std::span(expected).first(static_cast<size_t>(rows * mixture.width())));
          EXPECT_TRUE(verdict.ok) << shown(formats, rows) << ", " << threads
                                  << " threads: " << verdict.message;
        }
      }
    }
  }
}

TEST_P(Experts, GiveARowTheSameBitsInAnyCompany) {
  const NumberFormat q4 = NumberFormat::affine(4, 64, DType::bf16);
  const Mixture mixture({q4, q4, q4}, GatedActivation::geglu);
  const ExpertsArgs args = mixture.args(MatmulPrecision::bf16_inputs);
  const std::vector<float> x = random_values(static_cast<size_t>(kMostRows * mixture.width()), 11);
  const std::vector<Route> routes = random_routes(kMostRows, 12);
  TestTeam two(2);
  const std::vector<float> all = run_experts(table_, two, args, kMostRows, x.data(), routes.data());
  for (int32_t first : {0, 3, 20, kMostRows - 1}) {
    for (int32_t count : {1, 3, 6}) {
      if (first + count > kMostRows) continue;
      const std::vector<float> some =
          run_experts(table_, two, args, count, x.data() + first * mixture.width(),
                      routes.data() + first * Mixture::kChosen);
      const Verdict verdict = compare_bits(
          some, std::span(all).subspan(static_cast<size_t>(first * mixture.width()), some.size()));
      EXPECT_TRUE(verdict.ok) << "rows " << first << " + " << count << ": " << verdict.message;
    }
  }
}

TEST_P(Experts, MayOverwriteTheirInput) {
  const NumberFormat bf16 = NumberFormat::plain(DType::bf16);
  const Mixture mixture({bf16, bf16, bf16});
  for (int32_t rows : {1, 9}) {
    std::vector<float> x = random_values(static_cast<size_t>(rows * mixture.width()), 13);
    const std::vector<Route> routes = random_routes(rows, 14);
    ExpertsArgs args = mixture.args(MatmulPrecision::bf16_inputs);
    TestTeam two(2);
    const std::vector<float> expected = run_experts(table_, two, args, rows, x.data(), routes.data());
    args.rows = &rows;
    args.x = args.out = x.data();
    args.routes = routes.data();
    two.run(table_.experts, args);
    EXPECT_TRUE(compare_bits(x, expected).ok) << rows << " rows";
  }
}

TEST_P(Experts, CountWhatTheyRead) {
  const NumberFormat q8 = NumberFormat::block(FormatKind::q8_0);
  const Mixture mixture({q8, q8, q8});
  for (const KernelTable& table : {table_, reference_kernels()}) {
    for (int32_t rows : {1, 2, 9}) {
      const std::vector<float> x = random_values(static_cast<size_t>(rows * mixture.width()), 15);
      const std::vector<Route> routes = random_routes(rows, 16);
      std::set<int32_t> distinct;
      for (const Route& route : routes) distinct.insert(route.expert);
      int64_t read = -1;
      TestTeam two(2);
      run_experts(table, two, mixture.args(MatmulPrecision::bf16_inputs), rows, x.data(), routes.data(),
                  &read);
      EXPECT_EQ(read, static_cast<int64_t>(distinct.size()));
    }
  }
}

TEST(ExpertsCost, CountsTheExpertsRead) {
  const NumberFormat q4 = NumberFormat::affine(4, 64, DType::bf16);
  const Mixture mixture({q4, q4, q4});
  const ExpertsArgs args = mixture.args(MatmulPrecision::bf16_inputs);
  const int64_t one = args.gate[0].bytes() + args.up[0].bytes() + args.down[0].bytes();
  EXPECT_EQ(cost(args, 1, Mixture::kChosen).weight_bytes, Mixture::kChosen * one);
  EXPECT_NEAR(expected_experts(args, 1), Mixture::kChosen, 1e-9);
  EXPECT_LT(expected_experts(args, 2), 2.0 * Mixture::kChosen);
  EXPECT_NEAR(expected_experts(args, 1000), Mixture::kExperts, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(, Experts, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

}  // namespace
}  // namespace rafter::kernels::testing

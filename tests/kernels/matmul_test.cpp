// The matrix products of every tier and number format: against the reference with derived bounds, and bit for
// bit against themselves: rows alone and in company, any number of outputs, any number of workers, fused and
// unfused.
#include <map>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/kernels/matmul_check.h"

namespace rafter::kernels::testing {
namespace {

using tensor::DType;
using tensor::NumberFormat;

constexpr int32_t kMostRows = 130;
constexpr int64_t kMostOutputs = 70;

std::vector<int64_t> inner_dimensions(const NumberFormat& format) {
  const int64_t block = format.block_columns();
  if (block == 1) return {1, 7, 100, 257, 1030};
  if (block == 256) return {256, 768};
  return {block, 3 * block, 17 * block, 1280 + block};
}

struct TierAndFormat {
  base::CpuTier tier;
  NumberFormat format;
};

void PrintTo(const TierAndFormat& p, std::ostream* out) {
  *out << base::cpu_tier_name(p.tier) << " " << p.format.name() << " " << dtype_name(p.format.scale_type);
}

class Matmul : public ::testing::TestWithParam<TierAndFormat> {
 protected:
  // The reference's product, the same for every tier.
  static const ExpectedProduct& expected_product(const NumberFormat& format, const tensor::MatrixView& weight,
                                                 const std::vector<float>& x, MatmulPrecision precision) {
    static std::map<std::string, ExpectedProduct> known;
    const std::string key = fmt::format("{} {} {} {}", format.name(), dtype_name(format.scale_type),
                                        weight.columns, precision == MatmulPrecision::fp32_inputs);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known[key] = expect_product(weight, kMostRows, x, precision);
  }
};

TEST_P(Matmul, AgreesWithTheReferenceAndWithItself) {
  const NumberFormat format = GetParam().format;
  const KernelTable table = tier_kernels(GetParam().tier);
  ASSERT_TRUE(table.supports_format(format));
  TestTeam one(1), two(2), four(4);
  for (int64_t inner : inner_dimensions(format)) {
    const tensor::EncodedMatrix encoded = random_matrix(format, kMostOutputs, inner, 11);
    const FencedMatrix fenced(encoded, 0), shifted(encoded, 3);
    const std::vector<float> x = random_values(kMostRows * inner, 5);
    for (MatmulPrecision precision : {MatmulPrecision::bf16_inputs, MatmulPrecision::fp32_inputs}) {
      const std::string where =
          fmt::format("K {} precise {}", inner, precision == MatmulPrecision::fp32_inputs);
      const tensor::MatrixView weight = fenced.view(kMostOutputs);
      const ExpectedProduct& expected = expected_product(format, weight, x, precision);
      const std::vector<float> all = run_product(table, one, weight, kMostRows, x.data(), precision);
      const Verdict verdict = compare_values(all, expected.values, kMostOutputs, expected.bounds);
      ASSERT_TRUE(verdict.ok) << where << ": " << verdict.message;

      const auto expect_part = [&](TestTeam& team, const FencedMatrix& matrix, int32_t first, int32_t rows,
                                   int64_t outputs) {
        const std::vector<float> part =
            run_product(table, team, matrix.view(outputs), rows, x.data() + first * inner, precision);
        std::vector<float> same;
        for (int32_t r = first; r < first + rows; ++r) {
          same.insert(same.end(), all.begin() + r * kMostOutputs, all.begin() + r * kMostOutputs + outputs);
        }
        const Verdict bits = compare_bits(part, same);
        ASSERT_TRUE(bits.ok) << where << " rows " << first << "+" << rows << " outputs " << outputs
                             << " workers " << team.size() << ": " << bits.message;
      };
      for (int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 37}) expect_part(one, fenced, 1, rows, 13);
      for (int32_t rows : {3, 9}) expect_part(two, fenced, 1, rows, 13);
      for (int64_t outputs = 1; outputs <= kMostOutputs; outputs += outputs < 9 ? 1 : 7) {
        expect_part(one, fenced, 2, 1, outputs);
        expect_part(one, fenced, 7, 5, outputs);
      }
      for (TestTeam* team : {&one, &two, &four}) {
        expect_part(*team, shifted, 64, 1, kMostOutputs);
        expect_part(*team, shifted, 0, kMostRows, kMostOutputs);
      }
    }
  }
}

// Relative to a double sum, precise products are good to 1e-5 at the sizes of real models.
TEST_P(Matmul, PreciseIsPrecise) {
  const NumberFormat format = GetParam().format;
  const KernelTable table = tier_kernels(GetParam().tier);
  const int64_t inner = 4096, outputs = 24;
  const int32_t rows = 5;
  const tensor::EncodedMatrix encoded = random_matrix(format, outputs, inner, 3);
  const std::vector<float> x = random_values(rows * inner, 4);
  TestTeam one(1);
  const ExpectedProduct expected = expect_product(encoded.view(), rows, x, MatmulPrecision::fp32_inputs);
  std::vector<float> error =
      run_product(table, one, encoded.view(), rows, x.data(), MatmulPrecision::fp32_inputs);
  for (size_t i = 0; i < error.size(); ++i) error[i] -= expected.values[i];
  EXPECT_LE(l2_norm(error) / l2_norm(expected.values), 1e-5);
}

// Zeros, outliers, tiny values: the reference's product within the bounds. A row that holds a NaN gives NaN,
// and leaves the other rows alone.
TEST_P(Matmul, UnusualInputs) {
  const NumberFormat format = GetParam().format;
  const KernelTable table = tier_kernels(GetParam().tier);
  const int64_t inner = 512, outputs = 11;
  const int32_t rows = 5;
  const tensor::EncodedMatrix encoded = random_matrix(format, outputs, inner, 3);
  TestTeam one(1);
  for (MatmulPrecision precision : {MatmulPrecision::bf16_inputs, MatmulPrecision::fp32_inputs}) {
    std::vector<float> x = random_values(rows * inner, 4);
    const auto row = [&](int32_t r) { return std::span(x).subspan(r * inner, inner); };
    for (float& value : row(1)) value = 0;
    row(2)[70] = -3e5f, row(2)[inner - 1] = 255 * 0x1p10f;
    for (float& value : row(3)) value *= 1e-30f;
    const ExpectedProduct expected = expect_product(encoded.view(), rows, x, precision);
    const std::vector<float> right = run_product(table, one, encoded.view(), rows, x.data(), precision);
    const Verdict verdict = compare_values(right, expected.values, outputs, expected.bounds);
    EXPECT_TRUE(verdict.ok) << verdict.message;

    row(3)[200] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> mixed = run_product(table, one, encoded.view(), rows, x.data(), precision);
    for (int64_t i = 0; i < rows * outputs; ++i) {
      if (i / outputs == 3) {
        EXPECT_TRUE(std::isnan(mixed[i])) << i;
      } else {
        EXPECT_EQ(mixed[i], right[i]) << i;
      }
    }
  }
}

std::vector<TierAndFormat> all_parameters() {
  std::vector<TierAndFormat> all;
  for (base::CpuTier tier : base::supported_tiers()) {
    for (const NumberFormat& format : all_matmul_formats()) all.push_back({tier, format});
  }
  return all;
}

std::string parameter_name(const ::testing::TestParamInfo<TierAndFormat>& info) {
  const NumberFormat& format = info.param.format;
  return fmt::format("{}_{}_{}", base::cpu_tier_name(info.param.tier), format.name(),
                     dtype_name(format.scale_type));
}

INSTANTIATE_TEST_SUITE_P(, Matmul, ::testing::ValuesIn(all_parameters()), parameter_name);

// Fused forms against their unfused compositions, bit for bit.
class FusedMatmul : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  static constexpr int64_t kInner = 320;
  static constexpr int32_t kRowCounts[] = {1, 3, 4, 5, 17};

  void SetUp() override {
    table_ = tier_kernels(GetParam());
    int64_t outputs = 21;
    for (const NumberFormat& format :
         {NumberFormat::affine(4, 64, DType::bf16), NumberFormat::affine(8, 64, DType::bf16),
          NumberFormat::plain(DType::bf16), NumberFormat::block(tensor::FormatKind::q4_0)}) {
      matrices_.push_back(random_matrix(format, outputs, kInner, static_cast<uint32_t>(outputs)));
      biases_.push_back(random_values(static_cast<size_t>(outputs), 99));
      outputs += 9;
    }
    for (uint32_t seed : {1, 2}) {
      gate_up_.push_back(random_matrix(NumberFormat::affine(4, 32, DType::f16), 77, kInner, seed));
    }
    x_ = random_values(32 * kInner, 8);
    norm_weight_ = random_values(kInner, 9);
  }

  std::vector<float> normed(int32_t rows) {
    std::vector<float> out(static_cast<size_t>(rows * kInner));
    TestTeam one(1);
    one.run(table_.rms_norm,
            RmsNormArgs{&rows, 1, kInner, kEpsilon, norm_weight_.data(), x_.data(), out.data()});
    return out;
  }

  MatmulArgs norm_args(const int32_t* rows) {
    MatmulArgs args;
    args.rows = rows;
    args.columns = kInner;
    args.x = x_.data();
    args.norm_weight = norm_weight_.data();
    args.norm_epsilon = kEpsilon;
    return args;
  }

  std::vector<float> plain(const tensor::EncodedMatrix& matrix, int32_t rows, const std::vector<float>& x,
                           const float* bias) {
    TestTeam one(1);
    return run_product(table_, one, matrix.view(), rows, x.data(), MatmulPrecision::bf16_inputs, bias);
  }

  // Runs with scratch for a capacity that may exceed the live rows.
  void run(const MatmulArgs& args, int threads) {
    TestTeam team(threads);
    team.set_scratch(table_.matmul_scratch(args, 32));
    team.run(table_.fused_matmul, args);
    EXPECT_EQ(team.damage(), "");
  }

  static constexpr float kEpsilon = 1e-5f;
  KernelTable table_;
  std::vector<tensor::EncodedMatrix> matrices_, gate_up_;
  std::vector<std::vector<float>> biases_;
  std::vector<float> x_, norm_weight_;
};

TEST_P(FusedMatmul, NormAndSegments) {
  for (int32_t rows : kRowCounts) {
    const std::vector<float> input = normed(rows);
    for (int threads : {1, 2, 4}) {
      MatmulArgs args = norm_args(&rows);
      std::vector<std::vector<float>> outs;
      for (size_t s = 0; s < matrices_.size(); ++s) {
        outs.emplace_back(rows * matrices_[s].rows);
        args.segments[s] = {matrices_[s].view(), s % 2 == 0 ? biases_[s].data() : nullptr, outs[s].data()};
      }
      args.segment_count = static_cast<int>(matrices_.size());
      run(args, threads);
      for (size_t s = 0; s < matrices_.size(); ++s) {
        const Verdict verdict =
            compare_bits(outs[s], plain(matrices_[s], rows, input, args.segments[s].bias));
        EXPECT_TRUE(verdict.ok) << "rows " << rows << " segment " << s << ": " << verdict.message;
      }
    }
  }
}

TEST_P(FusedMatmul, ResidualInPlace) {
  for (int32_t rows : kRowCounts) {
    const std::vector<float> product = plain(matrices_[0], rows, normed(rows), biases_[0].data());
    std::vector<float> out = random_values(product.size(), 12), expected(out.size());
    TestTeam one(1);
    one.run(table_.add, AddArgs{&rows, matrices_[0].rows, out.data(), product.data(), expected.data()});
    MatmulArgs args = norm_args(&rows);
    args.epilogue = MatmulEpilogue::add;
    args.residual = out.data();
    args.segment_count = 1;
    args.segments[0] = {matrices_[0].view(), biases_[0].data(), out.data()};
    run(args, 2);
    const Verdict verdict = compare_bits(out, expected);
    EXPECT_TRUE(verdict.ok) << "rows " << rows << ": " << verdict.message;
  }
}

TEST_P(FusedMatmul, GateAndUp) {
  for (int32_t rows : kRowCounts) {
    const std::vector<float> input = normed(rows);
    const std::vector<float> gate = plain(gate_up_[0], rows, input, nullptr);
    const std::vector<float> up = plain(gate_up_[1], rows, input, nullptr);
    std::vector<float> expected(gate.size()), out(gate.size());
    TestTeam one(1);
    const int64_t width = gate_up_[0].rows;
    for (MatmulEpilogue epilogue : {MatmulEpilogue::swiglu, MatmulEpilogue::geglu}) {
      if (epilogue == MatmulEpilogue::swiglu) {
        one.run(table_.swiglu, SwigluArgs{&rows, width, gate.data(), up.data(), expected.data()});
      } else {
        one.run(table_.geglu, GegluArgs{&rows, width, width, 0, gate.data(), up.data(), expected.data()});
      }
      MatmulArgs args = norm_args(&rows);
      args.epilogue = epilogue;
      args.segment_count = 2;
      args.segments[0] = {gate_up_[0].view(), nullptr, out.data()};
      args.segments[1] = {gate_up_[1].view(), nullptr, nullptr};
      for (int threads : {1, 2}) {
        run(args, threads);
        const Verdict verdict = compare_bits(out, expected);
        EXPECT_TRUE(verdict.ok) << "rows " << rows << ": " << verdict.message;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FusedMatmul, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

TEST(MatmulNames, SayFormatAndShapeClass) {
  const KernelTable table = tier_kernels(base::CpuTier::portable);
  EXPECT_STREQ(table.matmul_kernel_name(NumberFormat::affine(4, 64, DType::bf16), 1), "qmv_q4g64");
  EXPECT_STREQ(table.matmul_kernel_name(NumberFormat::affine(8, 32, DType::f16), 64), "qmm_q8g32");
  EXPECT_STREQ(table.matmul_kernel_name(NumberFormat::plain(DType::bf16), 1), "mv_bf16");
  EXPECT_STREQ(table.matmul_kernel_name(NumberFormat::block(tensor::FormatKind::q8_0), 512), "mm_q8_0");
  EXPECT_FALSE(table.supports_format(NumberFormat::affine(7, 64, DType::bf16)));
}

}  // namespace
}  // namespace rafter::kernels::testing

// The checks of the matrix products must catch wrong products: right kernels run on weights that were spoilt
// the way a wrong kernel would read them, and each fault has to show.
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "tests/kernels/matmul_check.h"

namespace rafter::kernels::testing {
namespace {

using tensor::DType;
using tensor::EncodedMatrix;
using tensor::FormatKind;
using tensor::NumberFormat;

constexpr int64_t kInner = 512, kOutputs = 9;
constexpr int32_t kRows = 6;

class MatmulMutants : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  // Whether the comparison accepts the product of the spoilt weights (or inputs) in place of the right ones.
  bool accepts(const NumberFormat& format, const std::function<void(EncodedMatrix&)>& spoil,
               const std::function<void(std::vector<float>&)>& spoil_inputs = {}) {
    const EncodedMatrix right = random_matrix(format, kOutputs, kInner, 21);
    EncodedMatrix spoilt = right;
    spoil(spoilt);
    const std::vector<float> x = random_values(kRows * kInner, 22);
    std::vector<float> spoilt_x = x;
    if (spoil_inputs) spoil_inputs(spoilt_x);
    const ExpectedProduct expected = expect_product(right.view(), kRows, x, MatmulPrecision::bf16_inputs);
    TestTeam one(1);
    const std::vector<float> actual = run_product(tier_kernels(GetParam()), one, spoilt.view(), kRows,
                                                  spoilt_x.data(), MatmulPrecision::bf16_inputs);
    return compare_values(actual, expected.values, kOutputs, expected.bounds).ok;
  }
};

void swap_nibbles(std::byte& byte) { byte = byte << 4 | byte >> 4; }

TEST_P(MatmulMutants, NothingSpoiltIsAccepted) {
  for (const NumberFormat& format : all_matmul_formats()) {
    EXPECT_TRUE(accepts(format, [](EncodedMatrix&) {})) << format.name();
  }
}

TEST_P(MatmulMutants, SwappedNibbles) {
  EXPECT_FALSE(accepts(NumberFormat::affine(4, 64, DType::bf16), [](EncodedMatrix& matrix) {
    for (std::byte& byte : matrix.data) swap_nibbles(byte);
  }));
  EXPECT_FALSE(accepts(NumberFormat::block(FormatKind::q4_0), [](EncodedMatrix& matrix) {
    for (size_t i = 0; i < matrix.data.size(); ++i) {
      if (i % 18 >= 2) swap_nibbles(matrix.data[i]);
    }
  }));
}

TEST_P(MatmulMutants, OneSwappedPairOfCodes) {
  EXPECT_FALSE(accepts(NumberFormat::affine(4, 64, DType::bf16), [](EncodedMatrix& matrix) {
    for (size_t i = 40; i < matrix.data.size(); i += kInner / 2) swap_nibbles(matrix.data[i]);
  }));
}

TEST_P(MatmulMutants, ScaleOfTheNextGroup) {
  for (int bits : {4, 8}) {
    EXPECT_FALSE(accepts(NumberFormat::affine(bits, 32, DType::f16), [](EncodedMatrix& matrix) {
      std::memmove(matrix.scales.data(), matrix.scales.data() + 2, matrix.scales.size() - 2);
    }));
  }
  EXPECT_FALSE(accepts(NumberFormat::block(FormatKind::q8_0), [](EncodedMatrix& matrix) {
    for (size_t i = 0; i + 34 < matrix.data.size(); i += 34)
      std::memcpy(&matrix.data[i], &matrix.data[i + 34], 2);
  }));
  EXPECT_FALSE(accepts(NumberFormat::block(FormatKind::q6_k), [](EncodedMatrix& matrix) {
    for (size_t i = 192; i < matrix.data.size(); i += 210) std::swap(matrix.data[i], matrix.data[i + 1]);
  }));
}

TEST_P(MatmulMutants, ForgottenBiases) {
  for (int bits : {3, 4, 8}) {
    EXPECT_FALSE(accepts(NumberFormat::affine(bits, 64, DType::bf16), [](EncodedMatrix& matrix) {
      std::fill(matrix.biases.begin(), matrix.biases.end(), std::byte{0});
    }));
  }
  EXPECT_FALSE(accepts(NumberFormat::block(FormatKind::q4_1), [](EncodedMatrix& matrix) {
    for (size_t i = 0; i < matrix.data.size(); i += 20)
      matrix.data[i + 2] = matrix.data[i + 3] = std::byte{0};
  }));
}

TEST_P(MatmulMutants, DroppedLastBlock) {
  for (const NumberFormat& format : all_matmul_formats()) {
    const int64_t block = std::max<int64_t>(format.block_columns(), 16);
    EXPECT_FALSE(accepts(
        format, [](EncodedMatrix&) {},
        [&](std::vector<float>& x) {
          for (int32_t r = 0; r < kRows; ++r) {
            std::fill_n(x.begin() + (r + 1) * kInner - block, block, 0.0f);
          }
        }))
        << format.name();
  }
}

TEST_P(MatmulMutants, RowsExchanged) {
  EXPECT_FALSE(accepts(
      NumberFormat::plain(DType::bf16), [](EncodedMatrix&) {},
      [](std::vector<float>& x) { std::swap_ranges(x.begin(), x.begin() + kInner, x.begin() + kInner); }));
}

INSTANTIATE_TEST_SUITE_P(, MatmulMutants, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

}  // namespace
}  // namespace rafter::kernels::testing

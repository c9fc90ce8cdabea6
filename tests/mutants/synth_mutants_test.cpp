// Planted faults that the checks of synthetic checkpoints must catch.
#include <limits>

#include <gtest/gtest.h>

#include "lab/synth_random.h"
#include "tests/support/synth_checks.h"

namespace rafter::testing {
namespace {

TEST(SynthMutants, WrongNamesAndShapesAreCaught) {
  const TensorNames right = expected_tensors("cpm5-1b", "mlx-mixed");
  ASSERT_EQ(right.size(), 24u * (7 * 3 + 2) + 7);
  ASSERT_EQ(names_fault(right, right), "");
  EXPECT_NE(names_fault({}, {}), "");

  TensorNames wrong = right;
  wrong.erase("model.layers.23.mlp.down_proj.biases");
  EXPECT_NE(names_fault(right, wrong), "");
  wrong = right;
  wrong["model.layers.24.mlp.down_proj.biases"] = "BF16 1536 72";
  EXPECT_NE(names_fault(right, wrong), "");
  wrong = right;
  wrong["model.layers.22.mlp.down_proj.weight"] = right.at("model.layers.23.mlp.down_proj.weight");
  EXPECT_NE(names_fault(right, wrong), "");
}

// 512 random rows of 256 columns.
tensor::EncodedMatrix random_matrix(tensor::NumberFormat format, int64_t columns_of_scale = 256) {
  tensor::EncodedMatrix matrix{format, 512, 256, {}, {}, {}};
  matrix.data.resize(static_cast<size_t>(512 * format.row_bytes(256)));
  matrix.scales.resize(static_cast<size_t>(512 * format.scale_row_bytes(256)));
  matrix.biases.resize(matrix.scales.size());
  lab::RandomMatrix(format, 256, 1).fill(0, matrix.data, matrix.scales, matrix.biases);
  if (columns_of_scale == 256) return matrix;
  // The scales of another width.
  std::vector<std::byte> data(static_cast<size_t>(512 * format.row_bytes(columns_of_scale)));
  std::vector<std::byte> scales(static_cast<size_t>(512 * format.scale_row_bytes(columns_of_scale)));
  std::vector<std::byte> biases(scales.size());
  lab::RandomMatrix(format, columns_of_scale, 1).fill(0, data, scales, biases);
  std::copy_n(scales.begin(), matrix.scales.size(), matrix.scales.begin());
  std::copy_n(biases.begin(), matrix.biases.size(), matrix.biases.begin());
  return matrix;
}

TEST(SynthMutants, WrongMomentsAreCaught) {
  const auto affine = tensor::NumberFormat::affine(4, 64, tensor::DType::bf16);
  ASSERT_EQ(moments_fault(random_matrix(affine).view()), "");
  EXPECT_NE(moments_fault(random_matrix(affine, 512).view()), "");

  tensor::EncodedMatrix no_offset = random_matrix(affine);
  std::fill(no_offset.biases.begin(), no_offset.biases.end(), std::byte{0});
  EXPECT_NE(moments_fault(no_offset.view()), "");

  tensor::EncodedMatrix same_code = random_matrix(affine);
  std::fill(same_code.data.begin(), same_code.data.end(), std::byte{0x77});
  EXPECT_NE(moments_fault(same_code.view()), "");

  // Blocks whose scales all have one sign: the mean is half a step off.
  const auto q4_0 = tensor::NumberFormat::block(tensor::FormatKind::q4_0);
  tensor::EncodedMatrix one_sign = random_matrix(q4_0);
  ASSERT_EQ(moments_fault(one_sign.view()), "");
  for (size_t block = 0; block < one_sign.data.size(); block += 18)
    one_sign.data[block + 1] &= std::byte{0x7F};
  EXPECT_NE(moments_fault(one_sign.view()), "");
}

TEST(SynthMutants, InsaneLogitsAreCaught) {
  std::vector<float> logits(512);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 30;
  ASSERT_EQ(logits_fault(logits), "");
  for (float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 9.0f}) {
    std::vector<float> mutant = logits;
    mutant[100] = wrong;
    EXPECT_NE(logits_fault(mutant), "") << wrong;
  }
  std::vector<float> mutant(512, 1e-3f);
  EXPECT_NE(logits_fault(mutant), "");
  for (size_t i = 0; i < logits.size(); ++i) mutant[i] = logits[i] + 1;
  EXPECT_NE(logits_fault(mutant), "");
}

}  // namespace
}  // namespace rafter::testing

// Planted faults that the checks of opened checkpoints must catch.
#include <gtest/gtest.h>

#include "tests/support/format_files.h"

namespace rafter::format {
namespace {

const std::string kFixtures = RAFTER_SOURCE_DIR "/tests/fixtures/format/";

class FormatMutants : public ::testing::Test {
 protected:
  FormatMutants()
      : checkpoint_(Checkpoint::open(kFixtures + "gguf").value()), tensors_(checkpoint_.tensors()) {}

  std::string fault() const { return testing::views_fault(tensors_, checkpoint_.files()); }
  StoredTensor& tensor(const char* name) { return tensors_.find(name)->second; }

  Checkpoint checkpoint_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

TEST_F(FormatMutants, TheRightViewsPass) { EXPECT_EQ(fault(), ""); }

TEST_F(FormatMutants, DataStartLeftOut) {
  for (auto& [name, tensor] : tensors_) tensor.data -= 2000;
  EXPECT_NE(fault().find("outside the mapping"), std::string::npos);
}

TEST_F(FormatMutants, OneBytePastTheEnd) {
  const auto file = checkpoint_.files()[0].bytes();
  tensor("blk.0.q5_0.weight").data = file.data() + file.size() + 1 - tensor("blk.0.q5_0.weight").bytes;
  EXPECT_NE(fault().find("blk.0.q5_0.weight: outside the mapping"), std::string::npos);
}

TEST_F(FormatMutants, OverlappingTensors) {
  tensor("blk.0.q4_0.weight").data = tensor("blk.0.q8_0.weight").data;
  EXPECT_NE(fault().find("overlap"), std::string::npos);
}

TEST_F(FormatMutants, ShapeOfAnotherSize) {
  tensor("blk.0.f16.weight").shape[0] += 1;
  EXPECT_NE(fault().find("not those of its shape"), std::string::npos);
}

TEST_F(FormatMutants, ValuesOfAnotherTensor) {
  EXPECT_EQ(testing::difference_from_expected(checkpoint_, kFixtures + "gguf/expected"), "");
  EXPECT_NE(testing::difference_from_expected(checkpoint_, kFixtures + "mlx/expected"), "");
  EXPECT_NE(testing::difference_from_expected(checkpoint_, "/nowhere"), "");
}

}  // namespace
}  // namespace rafter::format

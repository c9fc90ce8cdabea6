// What the writers write, the readers read; and nothing appears before it is whole.
#include <gtest/gtest.h>

#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "tests/support/format_files.h"
#include "tests/support/temp_folder.h"

namespace rafter::format {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;
using testing::TempFolder;

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.01f * static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  return values;
}

std::vector<float> decoded(const tensor::MatrixView& view) {
  std::vector<float> out(static_cast<size_t>(view.rows * view.columns));
  for (int64_t r = 0; r < view.rows; ++r) {
    tensor::decode_row(
        view, r,
        std::span(out).subspan(static_cast<size_t>(r * view.columns), static_cast<size_t>(view.columns)));
  }
  return out;
}

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) count += entry.is_regular_file();
  return count;
}

TEST(SafetensorsWriter, RoundTripsAnMlxFolder) {
  TempFolder folder;
  folder.write("config.json", R"({"quantization":{"group_size":64,"bits":4}})");
  const auto matrix = tensor::encode_matrix(NumberFormat::affine(4, 64, DType::bf16), 3, 128, ramp(3 * 128));
  SafetensorsWriter writer(folder / "model.safetensors", {{"format", "mlx"}});
  ASSERT_TRUE(writer.declare("m.biases", DType::bf16, {3, 2}).ok());
  ASSERT_TRUE(writer.declare("m.scales", DType::bf16, {3, 2}).ok());
  ASSERT_TRUE(writer.declare("m.weight", DType::u32, {3, 16}).ok());
  ASSERT_TRUE(writer.declare("zé\"\n", DType::u8, {0}).ok());
  EXPECT_FALSE(writer.declare("m.weight", DType::u8, {1}).ok());
  EXPECT_FALSE(writer.declare("", DType::u8, {1}).ok());
  EXPECT_FALSE(writer.declare("__metadata__", DType::u8, {1}).ok());
  EXPECT_FALSE(writer.declare("x", DType::f64, {int64_t{1} << 62}).ok());
  ASSERT_TRUE(writer.begin().ok());
  // Row by row, as a quantizer that holds one row would.
  for (int64_t r = 0; r < 3; ++r) {
    const auto row = [&](const std::vector<std::byte>& bytes) {
      return std::span(bytes).subspan(static_cast<size_t>(r) * (bytes.size() / 3), bytes.size() / 3);
    };
    ASSERT_TRUE(writer.append("m.weight", row(matrix.data)).ok());
    ASSERT_TRUE(writer.append("m.scales", row(matrix.scales)).ok());
    ASSERT_TRUE(writer.append("m.biases", row(matrix.biases)).ok());
  }
  EXPECT_FALSE(writer.append("m.biases", std::span(matrix.biases).first(1)).ok());
  EXPECT_FALSE(writer.append("other", std::span(matrix.biases).first(1)).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  ASSERT_TRUE(writer.finish_blocking().ok());
  EXPECT_EQ(files_in(folder.path()), 2u);

  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  const auto view = checkpoint->matrix("m", 3, 128);
  ASSERT_TRUE(view.ok()) << view.error().message();
  EXPECT_EQ(decoded(*view), decoded(matrix.view()));
  EXPECT_TRUE(checkpoint->has("zé\"\n"));
  const auto file = checkpoint->files()[0].bytes();
  EXPECT_EQ((view->data - file.data()) % 64, 0);
}

TEST(SafetensorsWriter, UnfinishedFilesLeaveNothing) {
  TempFolder folder;
  {
    SafetensorsWriter writer(folder / "a.safetensors");
    ASSERT_TRUE(writer.declare("x", DType::f32, {4}).ok());
    ASSERT_TRUE(writer.begin().ok());
    EXPECT_EQ(files_in(folder.path()), 1u);
    const std::vector<std::byte> bytes(8);
    ASSERT_TRUE(writer.append("x", bytes).ok());
    const auto status = writer.finish_blocking();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message().find("8 of 16 bytes"), std::string::npos);
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
  SafetensorsWriter writer(folder / "no/such/folder.safetensors");
  EXPECT_EQ(writer.begin().error().code, base::ErrorCode::not_found);
}

TEST(GgufWriter, RoundTripsEveryFormat) {
  TempFolder folder;
  const std::string path = folder / "m.gguf";
  const std::vector<NumberFormat> formats = {
      NumberFormat::plain(DType::f32),       NumberFormat::plain(DType::f16),
      NumberFormat::plain(DType::bf16),      NumberFormat::block(FormatKind::q4_0),
      NumberFormat::block(FormatKind::q4_1), NumberFormat::block(FormatKind::q8_0),
      NumberFormat::block(FormatKind::q6_k)};
  GgufWriter writer(path);
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", 3);
  writer.set_i32("i", -3);
  writer.set_f32("f", 0.5f);
  writer.set_bool("b", true);
  const std::vector<std::string> texts = {"a", "", "é"};
  const std::vector<int32_t> integers = {1, -2};
  const std::vector<float> numbers = {0.25f, 1e30f};
  writer.set_strings("strings", texts);
  writer.set_i32s("integers", integers);
  writer.set_f32s("numbers", numbers);
  for (const NumberFormat& format : formats) {
    ASSERT_TRUE(writer.declare(format.name() + ".weight", format, {3, 256}).ok());
  }
  ASSERT_TRUE(writer.declare("norm", NumberFormat::plain(DType::f32), {5}).ok());
  EXPECT_FALSE(writer.declare("norm", NumberFormat::plain(DType::f32), {5}).ok());
  EXPECT_FALSE(writer.declare("x", NumberFormat::block(FormatKind::q4_0), {2, 48}).ok());
  EXPECT_FALSE(writer.declare("x", NumberFormat::affine(4, 64, DType::bf16), {2, 64}).ok());
  EXPECT_FALSE(writer.declare("x", NumberFormat::plain(DType::f32), {}).ok());
  EXPECT_FALSE(writer.declare("x", NumberFormat::plain(DType::f32), {0}).ok());
  ASSERT_TRUE(writer.begin().ok());
  std::vector<tensor::EncodedMatrix> matrices;
  for (const NumberFormat& format : formats)
    matrices.push_back(tensor::encode_matrix(format, 3, 256, ramp(3 * 256)));
  const auto norm = ramp(5);
  ASSERT_TRUE(writer.append("norm", std::as_bytes(std::span(norm))).ok());
  for (const auto& matrix : matrices)
    ASSERT_TRUE(writer.append(matrix.format.name() + ".weight", matrix.data).ok());
  ASSERT_TRUE(writer.finish_blocking().ok());

  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  EXPECT_EQ(testing::views_fault(checkpoint->tensors(), checkpoint->files()), "");
  for (const auto& matrix : matrices) {
    const auto view = checkpoint->matrix(matrix.format.name(), 3, 256);
    ASSERT_TRUE(view.ok()) << view.error().message();
    EXPECT_EQ(view->format.kind, matrix.format.kind);
    EXPECT_EQ(decoded(*view), decoded(matrix.view()));
  }
  EXPECT_EQ(checkpoint->vector("norm", 5)->at(4), norm[4]);
  EXPECT_EQ(*checkpoint->gguf_string("general.architecture"), "llama");
  EXPECT_EQ(*checkpoint->gguf_integer("llama.block_count"), 3);
  EXPECT_EQ(*checkpoint->gguf_integer("i"), -3);
  EXPECT_EQ(*checkpoint->gguf_number("f"), 0.5);
  EXPECT_TRUE(*checkpoint->gguf_bool("b"));
  EXPECT_EQ(**checkpoint->gguf_strings("strings"), texts);
  EXPECT_EQ(*checkpoint->gguf_integers("integers"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(checkpoint->gguf_numbers("numbers")->at(0), 0.25);
}

TEST(GgufWriter, RepeatedKeysAreRefused) {
  TempFolder folder;
  GgufWriter writer(folder / "m.gguf");
  writer.set_u32("a", 1);
  writer.set_u32("a", 1);
  EXPECT_FALSE(writer.begin().ok());
}

}  // namespace
}  // namespace rafter::format

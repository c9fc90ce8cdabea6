// Byte accounting from headers alone: the published values of real shapes, one row each, and mixed layouts
// against the files that hold them.
#include "engine/byte_account.h"

#include <gtest/gtest.h>

#include "lab/synth_shape.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

struct Published {
  const char* shape;
  const char* format;
  double streamed_gb;                  // 10^9 bytes
  double kv_mb_at_600, kv_mb_at_8192;  // 10^6 bytes
  double row_gathered_gb, head_gb;     // exact, from the shape; 0: not checked
};

// A new shape is one row.
constexpr Published kPublished[] = {
    {"cpm5-1b", "mlx4", 0.495, 14.7456, 201.326592, 0.11280384, 0.11280384},
    {"llama3-8b", "mlx4", 4.22, 78.6432, 1073.741824, 0.295501824, 0.295501824},
    // The tables of layers' own inputs are row-gathered; heads are tied.
    {"gemma4-e4b", "mlx4", 2.612, 53.9, 271.6, 1.585446912, 0.37748736},
    {"gemma4-12b", "mlx4", 6.698, 206.4, 469.8, 0, 0.56623104},
    {"gemma4-26b-a4b", "mlx4", 2.150, 135.2, 377.5, 0, 0.415236096},
    // No published figure: the arithmetic of the sizes, in bf16 two bytes a weight.
    {"gemma4-e2b", "mlx4", 1.2822, 23.2817, 132.1206, 1.321205760, 0.226492416},
};

class ByteAccountOf : public ::testing::TestWithParam<Published> {};

TEST_P(ByteAccountOf, TheShapeIsAsPublished) {
  const Published& row = GetParam();
  const auto checkpoint = lab::shape_without_data(row.shape, row.format, 64);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  const auto model = model::load_model(*checkpoint);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const engine::ByteAccount account = engine::account_bytes(*checkpoint, **model);
  EXPECT_NEAR(static_cast<double>(account.streamed_bytes) / (row.streamed_gb * 1e9), 1, 0.005);
  EXPECT_NEAR(static_cast<double>(account.kv_bytes(600)) / (row.kv_mb_at_600 * 1e6), 1, 0.005);
  EXPECT_NEAR(static_cast<double>(account.kv_bytes(8192)) / (row.kv_mb_at_8192 * 1e6), 1, 0.005);
  if (row.row_gathered_gb > 0) {
    EXPECT_EQ(account.row_gathered_bytes, std::llround(row.row_gathered_gb * 1e9));
  }
  if (row.head_gb > 0) {
    EXPECT_EQ(account.head_bytes, std::llround(row.head_gb * 1e9));
  }
  EXPECT_EQ(account.total_bytes, account.streamed_bytes - account.expert_bytes_active + account.expert_bytes +
                                     account.row_gathered_bytes + account.unused_bytes);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ByteAccountOf, ::testing::ValuesIn(kPublished), [](const auto& tested) {
  std::string name = tested.param.shape;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

// The keys and values of full layers have a head size of their own: counted with the sliding layers'
// geometry, 12B would read 872.4 MB at 8192 positions.
TEST(ByteAccount, TheFullLayerKvBytesComputedWithTheSlidingGeometry) {
  const auto checkpoint = lab::shape_without_data("gemma4-12b", "mlx4", 64).value();
  const auto model = model::load_model(checkpoint).value();
  const engine::ByteAccount account = engine::account_bytes(checkpoint, *model);
  const int64_t full = 8 * 2 * 1 * 512 * 2, sliding = 40 * 2 * 8 * 256 * 2;  // bytes per position
  for (int64_t context : {1, 600, 1024, 8192, 100'000}) {
    EXPECT_EQ(account.kv_bytes(context), full * context + sliding * std::min<int64_t>(context, 1024))
        << context;
  }
  const int64_t wrong = 48 * 2 * 8 * 256 * 2;
  EXPECT_NE(account.kv_bytes(600), wrong * 600);
}

// Every recurrent layer's state is read and written once: 4B about 103 MB, 27B about 308 MB, at any context.
TEST(ByteAccount, RecurrentStatesAreReadAndWritten) {
  struct Hybrid {
    const char* shape;
    double states_mb;     // convolutions in fp32 and the journal of pending rows included
    int64_t full_layers;  // 4 heads of 256, keys and values
  };
  for (const Hybrid& row : {Hybrid{"qwen3.5-4b", 103, 8}, {"qwen3.5-27b", 308, 16}}) {
    const auto checkpoint = lab::shape_without_data(row.shape, "mlx4", 64).value();
    const auto model = model::load_model(checkpoint).value();
    const engine::ByteAccount account = engine::account_bytes(checkpoint, *model);
    const int64_t position = row.full_layers * 2 * 4 * 256 * 2;
    EXPECT_EQ(account.kv_bytes(8192) - account.kv_bytes(600), position * (8192 - 600)) << row.shape;
    EXPECT_NEAR(static_cast<double>(account.kv_bytes(600) - position * 600) / (row.states_mb * 1e6), 1, 0.02);
  }
}

// A file's own headers, mixed widths per layer included: streamed is what synth says that it wrote, plus
// norms; and a shape without data counts the same.
TEST(ByteAccount, AgreesWithFiles) {
  for (const char* shape : {"llama3-tiny", "qwen3-tiny", "gemma4-e2b-tiny", "gemma4-12b-tiny",
                            "gemma4-26b-a4b-tiny", "qwen3.5-4b-tiny", "qwen3.5-35b-a3b-tiny"}) {
    for (const char* format : {"mlx-mixed", "mlx4", "bf16", "q8_0"}) {
      SCOPED_TRACE(fmt::format("{} {}", shape, format));
      const TempFolder folder;
      lab::SynthOptions options;
      options.shape = shape;
      options.format = format;
      options.folder = folder / "model";
      const lab::SynthSummary summary = lab::run_synth_blocking(options).value();
      const auto file = format::Checkpoint::open(summary.path).value();
      const auto model = model::load_model(file).value();
      const engine::ByteAccount account = engine::account_bytes(file, *model);
      EXPECT_EQ(account.streamed_bytes - account.vector_bytes, summary.streamed_bytes);
      const auto headers = lab::shape_without_data(shape, format, 64).value();
      const auto same = model::load_model(headers).value();
      const engine::ByteAccount without_data = engine::account_bytes(headers, *same);
      EXPECT_EQ(without_data.streamed_bytes - without_data.vector_bytes, summary.streamed_bytes);
      EXPECT_EQ(without_data.kv_bytes(100), account.kv_bytes(100));
      EXPECT_EQ(without_data.head_bytes, account.head_bytes);
    }
  }
}

TEST(ByteAccount, RefusesUnknownShapes) {
  EXPECT_FALSE(lab::shape_without_data("llama9", "mlx4", 64).ok());
  EXPECT_FALSE(lab::shape_without_data("cpm5-1b", "mlx5", 64).ok());
}

}  // namespace
}  // namespace rafter::testing

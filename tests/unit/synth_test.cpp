#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "cli/random_weights.h"
#include "cli/synth_shape.h"
#include "cli/synth_writer.h"
#include "format/checkpoint.h"
#include "model/model.h"
#include "tensor/codec.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

using testing::TempFolder;

int64_t count_parameters(const char* shape) {
  int64_t count = 0;
  for (const SynthTensor& tensor : synth_tensors(**find_synth_shape(shape), **find_synth_scheme("bf16"))) {
    count += tensor.rows * std::max<int64_t>(tensor.columns, 1);
  }
  return count;
}

TEST(Synth, ShapesHaveThePublishedParameterCounts) {
  EXPECT_EQ(count_parameters("llama3-8b"), 8'030'261'248);    // meta-llama/Meta-Llama-3-8B
  EXPECT_EQ(count_parameters("llama3.2-1b"), 1'235'814'400);  // meta-llama/Llama-3.2-1B
}

// The model's own loader checks every name and shape, and that no tensor is left over.
TEST(Synth, EveryTinyCheckpointLoads) {
  for (const SynthScheme& scheme : synth_schemes()) {
    for (const char* shape : {"llama3-tiny", "qwen3-tiny"}) {
      TempFolder folder;
      const std::string path = testing::write_synth_model(shape, scheme.name, folder.path());
      auto checkpoint = format::Checkpoint::open(path);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
      auto model = model::load_model(*checkpoint);
      ASSERT_TRUE(model.ok()) << scheme.name << ": " << model.error().message();
      // GGUF's rope_freqs, half a head of them, count as weights too.
      EXPECT_NEAR(static_cast<double>((*model)->info().parameters),
                  static_cast<double>(count_parameters(shape)), 32)
          << scheme.name;
    }
  }
}

TEST(Synth, MixedLayoutHasEightBitsWhereItSays) {
  TempFolder folder;
  testing::write_synth_model("llama3-tiny", "mlx-mixed", folder.path());
  const format::Checkpoint checkpoint = format::Checkpoint::open(folder.path()).value();
  const auto bits = [&](const char* module, int64_t rows, int64_t columns) {
    return static_cast<int>(checkpoint.matrix(module, rows, columns)->format.bits);
  };
  EXPECT_EQ(bits("model.layers.0.self_attn.q_proj", 256, 256), 8);
  EXPECT_EQ(bits("model.layers.1.self_attn.q_proj", 256, 256), 4);
  EXPECT_EQ(bits("model.layers.2.mlp.down_proj", 256, 768), 8);
  EXPECT_EQ(bits("lm_head", 512, 256), 8);
  EXPECT_EQ(bits("model.embed_tokens", 512, 256), 8);
}

// Elements that a matrix decodes to: mean near 0, the deviation that was asked for.
TEST(Synth, RandomWeightsHaveTheirDeviation) {
  constexpr int64_t kRows = 64, kColumns = 2048;
  constexpr double kDeviation = 0.022;
  using tensor::NumberFormat;
  for (const NumberFormat& format :
       {NumberFormat::plain(tensor::DType::bf16), NumberFormat::affine(4, 64, tensor::DType::bf16),
        NumberFormat::affine(8, 64, tensor::DType::bf16), NumberFormat::block(tensor::FormatKind::q4_0),
        NumberFormat::block(tensor::FormatKind::q8_0), NumberFormat::block(tensor::FormatKind::q6_k)}) {
    tensor::EncodedMatrix matrix{format, kRows, kColumns, {}, {}, {}};
    const auto into = [](std::vector<std::byte>& part) -> ByteSink {
      return [&part](std::span<const std::byte> bytes) {
        part.insert(part.end(), bytes.begin(), bytes.end());
        return base::Status();
      };
    };
    ASSERT_TRUE(write_random_matrix(format, kRows, kColumns, kDeviation, 5,
                                    {into(matrix.data), into(matrix.scales), into(matrix.biases)})
                    .ok());
    ASSERT_EQ(static_cast<int64_t>(matrix.data.size() + matrix.scales.size() + matrix.biases.size()),
              format.matrix_bytes(kRows, kColumns));
    double sum = 0, squares = 0;
    std::vector<float> row(kColumns);
    for (int64_t r = 0; r < kRows; ++r) {
      tensor::decode_row(matrix.view(), r, row);
      for (float value : row) {
        ASSERT_TRUE(std::isfinite(value)) << format.name();
        sum += value;
        squares += static_cast<double>(value) * value;
      }
    }
    constexpr double kCount = kRows * kColumns;
    EXPECT_LT(std::abs(sum / kCount), 0.01 * kDeviation) << format.name();
    EXPECT_NEAR(std::sqrt(squares / kCount), kDeviation, 0.05 * kDeviation) << format.name();
  }
}

TEST(Synth, SeedsDecideTheBytes) {
  const auto first_bytes = [](uint64_t seed, const char* name) {
    std::vector<std::byte> data;
    const ByteSink sink = [&](std::span<const std::byte> bytes) {
      data.assign(bytes.begin(), bytes.end());
      return base::Status();
    };
    EXPECT_TRUE(write_random_norm(tensor::DType::bf16, 64, tensor_seed(seed, name), sink).ok());
    return data;
  };
  EXPECT_EQ(first_bytes(1, "a"), first_bytes(1, "a"));
  EXPECT_NE(first_bytes(1, "a"), first_bytes(2, "a"));
  EXPECT_NE(first_bytes(1, "a"), first_bytes(1, "b"));
}

TEST(Synth, AnInterruptedWriteLeavesNothing) {
  for (const char* format : {"mlx4", "q4_0"}) {
    TempFolder folder;
    SynthJob job;
    job.shape = *find_synth_shape("llama3-tiny");
    job.scheme = *find_synth_scheme(format);
    job.folder = folder.path();
    int portions = 0;
    job.on_progress = [&](int64_t) -> base::Status {
      if (++portions == 7) return base::Error{base::ErrorCode::interrupted, "interrupted", "", ""};
      return {};
    };
    const base::Status status =
        job.scheme->container == SynthContainer::gguf ? write_synth_gguf(job) : write_synth_folder(job);
    EXPECT_EQ(status.error().code, base::ErrorCode::interrupted);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << format;
  }
}

TEST(Synth, UnknownNamesListTheKnownOnes) {
  EXPECT_NE(find_synth_shape("gpt2").error().hint.find("llama3-tiny"), std::string::npos);
  EXPECT_NE(find_synth_scheme("q2").error().hint.find("mlx-mixed"), std::string::npos);
}

}  // namespace
}  // namespace rafter::cli

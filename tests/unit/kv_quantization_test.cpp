// Which layers get codes: --kv-quant and kv_config.json, and what a byte account makes of them.
#include "engine/kv_quantization.h"

#include <fstream>

#include <gtest/gtest.h>

#include "engine/byte_account.h"
#include "lab/synth_shape.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using engine::KvQuantization;
using kernels::KvCodes;

class KvConfig : public ::testing::Test {
 protected:
  KvConfig() {
    lab::SynthOptions options;
    options.shape = "llama3-tiny";
    options.format = "bf16";
    options.folder = folder_ / "model";
    path_ = lab::run_synth_blocking(options).value().path;
  }

  base::Result<std::vector<KvCodes>> codes_of(const std::string& text,
                                              KvQuantization mode = KvQuantization::config,
                                              bool precise = false) {
    std::ofstream(std::filesystem::path(path_) / "kv_config.json") << text;
    const auto checkpoint = format::Checkpoint::open(path_).value();
    return engine::kv_codes(checkpoint, *model::load_model(checkpoint).value(), mode, precise);
  }

  TempFolder folder_;
  std::string path_;
};

TEST_F(KvConfig, IsReadByLayer) {
  const std::string text = R"([{"layer_idx": 1, "bits": 4, "group_size": 32, "kl": 0.1}])";
  for (const KvQuantization mode : {KvQuantization::config, KvQuantization::automatic}) {
    const std::vector<KvCodes> codes = codes_of(text, mode).value();
    ASSERT_GT(codes.size(), 1u);
    EXPECT_EQ(codes[0], KvCodes{});
    EXPECT_EQ(codes[1], (KvCodes{4, 32}));
  }
  EXPECT_EQ(codes_of(text, KvQuantization::automatic, /*precise=*/true).value()[1], KvCodes{});
  EXPECT_EQ(codes_of(text, KvQuantization::off).value()[1], KvCodes{});
  EXPECT_EQ(codes_of(text, KvQuantization::eight_bits).value()[1].bits, 8);
}

TEST_F(KvConfig, HostileOnesAreRefused) {
  for (const char* text : {"",
                           "{}",
                           "7",
                           "[7]",
                           "[[]]",
                           "[{}]",
                           R"([{"layer_idx": 0}])",
                           R"([{"bits": 8}])",
                           R"([{"layer_idx": -1, "bits": 8}])",
                           R"([{"layer_idx": 0.5, "bits": 8}])",
                           R"([{"layer_idx": "0", "bits": 8}])",
                           R"([{"layer_idx": 18446744073709551615, "bits": 8}])",
                           R"([{"layer_idx": 9999, "bits": 8}])",
                           R"([{"layer_idx": 0, "bits": 3}])",
                           R"([{"layer_idx": 0, "bits": 4294967300}])",
                           R"([{"layer_idx": 0, "bits": 8, "group_size": 0}])",
                           R"([{"layer_idx": 0, "bits": 8, "group_size": 48}])",
                           R"([{"layer_idx": 0, "bits": 8}, {"layer_idx": 0, "bits": 4}])",
                           R"([{"layer_idx": 0, "bits": 8, "bits": 4}])",
                           R"([{"layer_idx": 0, "bits": 8}] x)"}) {
    const auto codes = codes_of(text);
    ASSERT_FALSE(codes.ok()) << text;
    EXPECT_NE(codes.error().message().find("kv_config.json"), std::string::npos) << codes.error().message();
  }
}

TEST_F(KvConfig, MustBeThereWhereItIsAskedFor) {
  const auto checkpoint = format::Checkpoint::open(path_).value();
  const auto model = model::load_model(checkpoint).value();
  const auto codes = engine::kv_codes(checkpoint, *model, KvQuantization::config, false);
  ASSERT_FALSE(codes.ok());
  EXPECT_EQ(codes.error().code, base::ErrorCode::not_found);
  EXPECT_TRUE(engine::kv_codes(checkpoint, *model, KvQuantization::automatic, false).ok());
}

// llama3-8b: 32 layers of 8 kv heads of 128: codes, and 4 bytes of scale and bias for each group of 64.
TEST(KvBytes, CodesScalesAndBiases) {
  const auto checkpoint = lab::shape_without_data("llama3-8b", "mlx4", 64).value();
  const auto model = model::load_model(checkpoint).value();
  const auto bytes_with = [&](KvQuantization mode) {
    return engine::account_bytes(checkpoint, *model,
                                 engine::kv_codes(checkpoint, *model, mode, false).value())
        .kv_bytes(600);
  };
  EXPECT_EQ(bytes_with(KvQuantization::off), 600 * 32 * 2 * 8 * 256);
  EXPECT_EQ(bytes_with(KvQuantization::eight_bits), 600 * 32 * 2 * 8 * (128 + 2 * 4));
  EXPECT_EQ(bytes_with(KvQuantization::four_bits), 600 * 32 * 2 * 8 * (64 + 2 * 4));
}

}  // namespace
}  // namespace rafter::testing

// Which layers get codes: --kv-quant and kv_config.json, and what a byte account makes of them.
#include "engine/kv_quantization.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "engine/byte_account.h"
#include "engine/engine.h"
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

class KvConfigEngine : public KvConfig {
 protected:
  KvConfigEngine() { path_ = write_synth_model("qwen3-tiny", "bf16", folder_ / "wider"); }

  // The logits of a few rows of an engine that does as the text says.
  std::vector<float> logits_of(const std::string& text, KvQuantization mode = KvQuantization::config) {
    std::ofstream(std::filesystem::path(path_) / "kv_config.json") << text;
    auto checkpoint = std::make_shared<const format::Checkpoint>(format::Checkpoint::open(path_).value());
    engine::EngineOptions options;
    options.threads = 1;
    options.context_limit = 128;
    options.kv_quantization = mode;
    const auto engine = engine::Engine::open(checkpoint, options).value();
    const int32_t sequence = engine->create_sequence().value();
    std::vector<engine::Row> rows;
    for (int32_t p = 0; p < 20; ++p) rows.push_back({p * 3 + 1, p, sequence, p == 19, 0});
    EXPECT_TRUE(engine->step(rows).ok());
    format_ = engine->cache_format();
    bytes_ = engine->cache_bytes_in_use();
    const auto logits = engine->logits(0);
    return {logits.begin(), logits.end()};
  }
  // An entry for each of the model's layers.
  std::string config(const std::vector<KvCodes>& codes) const {
    std::string text;
    for (size_t layer = 0; layer < codes.size(); ++layer) {
      if (codes[layer].bits == 0) continue;
      text += fmt::format(R"({}{{"layer_idx": {}, "bits": {}, "group_size": {}}})", text.empty() ? "" : ", ",
                          layer, codes[layer].bits, codes[layer].group_size);
    }
    return "[" + text + "]";
  }

  std::string format_;
  int64_t bytes_ = 0;
};

TEST_F(KvConfigEngine, EveryLayerIsStoredAsItsEntrySays) {
  const size_t layers = codes_of("[]").value().size();
  ASSERT_GE(layers, 2u);
  const std::vector<float> off = logits_of("[]", KvQuantization::off);
  const int64_t off_bytes = bytes_;
  const std::vector<KvCodes> all(layers, {8, 64});
  EXPECT_EQ(logits_of(config(all)), logits_of("[]", KvQuantization::eight_bits));
  // Each layer by itself, in every way: other logits each time, and that layer's bytes are saved.
  const auto layer = model::load_model(format::Checkpoint::open(path_).value()).value()->cache_layers()[0];
  std::set<std::vector<float>> seen = {off};
  for (size_t at = 0; at < layers; ++at) {
    for (const KvCodes& codes : {KvCodes{8, 64}, KvCodes{8, 32}, KvCodes{4, 64}, KvCodes{4, 32}}) {
      std::vector<KvCodes> some(layers);
      some[at] = codes;
      EXPECT_TRUE(seen.insert(logits_of(config(some))).second) << at << ": " << codes.bits << " bits";
      EXPECT_EQ(format_, fmt::format("{} bit, bf16", codes.bits));
      const int64_t heads = 2 * 64 * layer.kv_heads,
                    coded = layer.head_dim * codes.bits / 8 + layer.head_dim / codes.group_size * 4;
      EXPECT_EQ(off_bytes - bytes_, heads * (2 * layer.head_dim - coded)) << at;
    }
  }
  std::vector<KvCodes> mixed(layers);
  mixed[0] = {8, 32}, mixed[1] = {4, 64};
  EXPECT_TRUE(seen.insert(logits_of(config(mixed))).second);
  EXPECT_EQ(format_, layers > 2 ? "4 and 8 bit, bf16" : "4 and 8 bit");
}

TEST_F(KvConfigEngine, DoesNotOpenWithAMalformedOne) {
  for (const char* text : {"{", R"([{"layer_idx": 0, "bits": 3}])", R"([{"layer_idx": 0, "bits": 8}, 1])"}) {
    std::ofstream(std::filesystem::path(path_) / "kv_config.json") << text;
    auto checkpoint = std::make_shared<const format::Checkpoint>(format::Checkpoint::open(path_).value());
    const auto opened = engine::Engine::open(checkpoint, {});  // nothing asked for: followed all the same
    ASSERT_FALSE(opened.ok()) << text;
    EXPECT_NE(opened.error().message().find("kv_config.json"), std::string::npos);
    EXPECT_NE(opened.error().hint, "") << text;
    engine::EngineOptions off;
    off.kv_quantization = KvQuantization::off;
    EXPECT_TRUE(engine::Engine::open(checkpoint, off).ok()) << "the file is not read";
  }
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

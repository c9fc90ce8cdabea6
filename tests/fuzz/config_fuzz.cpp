// Any text as a config.json: an error, or values inside the ranges that the readers promise.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "model/config.h"
#include "model/rope_config.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter::model;
  const auto config = Config::parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!config.ok()) {
    RAFTER_CHECK(!config.error().what.empty());
    return 0;
  }
  for (const char* key : {"hidden_size", "num_hidden_layers", "head_dim", "vocab_size"}) {
    const auto value = config->integer(key);
    RAFTER_CHECK(!value.ok() || (*value >= 0 && *value <= INT32_MAX));
    RAFTER_CHECK(config->integer(key, 1).ok() || config->has(key));
  }
  for (const char* key : {"rms_norm_eps", "rope_theta", "attention_bias"}) {
    const auto value = config->number(key);
    RAFTER_CHECK(!value.ok() || std::isfinite(*value));
    RAFTER_CHECK(config->boolean(key, true).ok() || config->has(key));
  }
  RAFTER_CHECK(config->strings("architectures").ok() || config->has("architectures"));
  for (const int64_t head_dim : {8, 64}) {
    const auto rope = make_rope(*config, head_dim, 10000.0);
    RAFTER_CHECK(!rope.ok() || static_cast<int64_t>(rope->frequencies.size()) <= head_dim / 2);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = rafter::testing::seed_files("fixtures/format", ".json");
  seeds.push_back(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
      "head_dim": 8, "vocab_size": 256, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "attention_bias": false,
      "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  seeds.push_back(
      R"({"model_type": "qwen3", "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6,
      "original_max_position_embeddings": 32768, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.0}})");
  seeds.push_back(
      R"({"model_type": "x", "text_config": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2}}})");
  return seeds;
}

// Any text as a shard index and as a config.json: an error, or file names that stay in their folder.
#include <string_view>

#include "base/check.h"
#include "format/mlx_quantization.h"
#include "format/shard_index.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rafter::format;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = parse_shard_index(text, "fuzz");
  if (index.ok()) {
    for (const auto& [tensor, file] : *index) {
      RAFTER_CHECK(file.find('/') == std::string::npos && file.ends_with(".safetensors"));
    }
  }
  const auto quantization = parse_mlx_quantization(text, "fuzz");
  RAFTER_CHECK(quantization.ok() || !quantization.error().what.empty());
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = rafter::testing::seed_files("fixtures/format", ".json");
  seeds.push_back(R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  seeds.push_back(
      R"({"quantization": {"group_size": 64, "bits": 4, "mode": "affine", "lm_head": {"group_size": 32, "bits": 8},
                     "model.embed": false}, "text_config": {"quantization_config": {"bits": 3}}})");
  return seeds;
}

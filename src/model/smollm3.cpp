// SmolLM3: llama in which every fourth layer (or those that the config lists) leaves q and k unrotated.
#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_smollm3(const format::Checkpoint& checkpoint,
                                                        const Config& config) {
  DenseTraits traits;
  traits.architecture = "smollm3";
  traits.default_rope_theta = 2000000.0;
  traits.gguf_adjacent_rope = true;
  RAFTER_ASSIGN(const bool attention_bias, config.boolean("attention_bias", false));
  RAFTER_ASSIGN(const bool mlp_bias, config.boolean("mlp_bias", false));
  traits.qkv_bias = traits.o_bias = attention_bias ? Bias::required : Bias::none;
  traits.mlp_bias = mlp_bias ? Bias::required : Bias::none;

  RAFTER_ASSIGN(const int64_t layers, config.integer("num_hidden_layers"));
  RAFTER_ASSIGN(const int64_t interval, config.integer("no_rope_layer_interval", 4));
  RAFTER_ASSIGN(const std::vector<double> listed, config.numbers("no_rope_layers"));  // 1: rotated
  if (interval < 1 || (!listed.empty() && static_cast<int64_t>(listed.size()) != layers)) {
    return base::Error{
        base::ErrorCode::invalid_data,
        fmt::format("{} entries for {} layers, or an interval of {}", listed.size(), layers, interval),
        config.where() + ": no_rope_layers", ""};
  }
  for (int64_t l = 0; l < layers && l < 4096; ++l) {
    traits.rotates.push_back(listed.empty() ? (l + 1) % interval != 0 : listed[static_cast<size_t>(l)] != 0);
  }
  RAFTER_ASSIGN(const bool slides, config.boolean("use_sliding_window", false));
  if (slides) {
    RAFTER_ASSIGN(traits.windows, sliding_windows(config, [&](int64_t l) {
                    return !traits.rotates[static_cast<size_t>(l)];
                  }));
  }
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

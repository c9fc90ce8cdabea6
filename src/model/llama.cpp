// Llama and its kin: mistral, smollm 1 and 2, MiniCPM5 (a plain llama whose q width is not D).
#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_llama(const format::Checkpoint& checkpoint,
                                                      const Config& config) {
  DenseTraits traits;
  traits.architecture = "llama";
  traits.default_rope_theta = 10000.0;
  traits.gguf_adjacent_rope = true;
  RAFTER_ASSIGN(const bool attention_bias, config.boolean("attention_bias", false));
  RAFTER_ASSIGN(const bool mlp_bias, config.boolean("mlp_bias", false));
  const Bias absent =
      config.from_gguf() ? Bias::optional : Bias::none;  // GGUF says it by the tensors it holds
  traits.qkv_bias = traits.o_bias = attention_bias ? Bias::required : absent;
  traits.mlp_bias = mlp_bias ? Bias::required : absent;
  // Mistral's scalar window slides every layer (as transformers reads it); llama's configs have none.
  const bool mistral = config.model_type() == "mistral";
  RAFTER_ASSIGN(traits.windows, sliding_windows(config, [&](int64_t) { return mistral; }));
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

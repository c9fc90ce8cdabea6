// Qwen3: llama with an RMS norm over each head of q and k before the rotation.
#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_qwen3(const format::Checkpoint& checkpoint,
                                                      const Config& config) {
  DenseTraits traits;
  traits.architecture = "qwen3";
  traits.default_rope_theta = 1000000.0;
  traits.qk_norm = true;
  RAFTER_ASSIGN(const bool attention_bias, config.boolean("attention_bias", false));
  traits.qkv_bias = traits.o_bias = attention_bias ? Bias::required : Bias::none;
  RAFTER_ASSIGN(traits.windows, qwen_windows(config));
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

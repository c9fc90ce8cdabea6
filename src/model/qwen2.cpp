// Qwen2 and Qwen2.5: llama with biases on q, k and v, never on o; head_dim is always D / H.
#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_qwen2(const format::Checkpoint& checkpoint,
                                                      const Config& config) {
  DenseTraits traits;
  traits.architecture = "qwen2";
  traits.default_rope_theta = 1000000.0;
  traits.head_dim_key = false;
  traits.qkv_bias = Bias::required;
  RAFTER_ASSIGN(const bool slides, config.boolean("use_sliding_window", false));
  RAFTER_ASSIGN(const int64_t first_sliding, config.integer("max_window_layers", 28));
  if (slides) {
    RAFTER_ASSIGN(traits.windows, sliding_windows(config, [&](int64_t l) { return l >= first_sliding; }));
  }
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

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
  RAFTER_ASSIGN(traits.windows, qwen_windows(config));
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

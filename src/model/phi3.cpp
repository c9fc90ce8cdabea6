// Phi-3 and Phi-4-mini: llama with q, k and v in one matrix and gate and up in another, longrope over part of
// each head, and one window for all layers.
#include "model/dense.h"
#include "model/families.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_phi3(const format::Checkpoint& checkpoint,
                                                     const Config& config) {
  DenseTraits traits;
  traits.architecture = "phi3";
  traits.default_rope_theta = 10000.0;
  traits.head_dim_key = false;
  traits.fused_projections = true;
  RAFTER_ASSIGN(traits.windows, sliding_windows(config, [](int64_t) { return true; }));
  return load_dense(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

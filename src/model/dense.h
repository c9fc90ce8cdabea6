// The dense pre-norm transformer that llama and its kin share: their files say where they differ.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "model/rope_config.h"
#include "model/weights.h"

namespace rafter::model {

struct DenseConfig {
  int64_t layers, width, ffn_width, heads, kv_heads, head_dim, vocabulary, max_positions;
  float norm_epsilon;
};

// What a layer does between its second norm and the residual sum: from m [B, D] to [B, D].
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual plan::Value emit(plan::Emitter& e, plan::Value m) const = 0;
};

// Loads a layer's feed-forward; null for a layer that has the usual gated one.
using FeedForwardLoader =
    std::function<base::Result<std::unique_ptr<FeedForward>>(Weights&, const DenseConfig&, int64_t layer)>;

// What a family decides. Sizes common to all come from the config's usual keys.
struct DenseTraits {
  std::string architecture;
  std::optional<double> default_rope_theta;
  Bias qkv_bias = Bias::none;
  Bias o_bias = Bias::none;
  Bias mlp_bias = Bias::none;
  bool qk_norm = false;             // RMS norm over each head of q and k, before the rotation
  bool head_dim_key = true;         // false: head_dim is always D / H, whatever the config says
  std::vector<int32_t> windows;     // per layer, 0: none; empty: none anywhere
  std::vector<bool> rotates;        // per layer: whether q and k are rotated; empty: everywhere
  bool fused_projections = false;   // q, k and v lie in one matrix, gate and up in another
  FeedForwardLoader feed_forward;   // null: gate, up and down everywhere
  bool gguf_adjacent_rope = false;  // llama-arch GGUF files store q and k rows for adjacent-pair rotation
};

base::Result<std::shared_ptr<const Model>> load_dense(const format::Checkpoint& checkpoint,
                                                      const Config& config, DenseTraits traits);

// Windows from `layer_types` and `sliding_window`; `without_types` says which layers slide when there is no
// such list.
base::Result<std::vector<int32_t>> sliding_windows(const Config& config,
                                                   const std::function<bool(int64_t layer)>& without_types);

// Qwen's rule: nothing slides unless `use_sliding_window`; then, without a list, layers from
// `max_window_layers` on.
base::Result<std::vector<int32_t>> qwen_windows(const Config& config);

}  // namespace rafter::model

// Gemma 3: five sliding layers to a full one, each kind with a rotary base of its own; norms over the heads
// of q and k. The text of multimodal checkpoints too, whose configs leave out what is the default.
#include "model/dense.h"
#include "model/families.h"
#include "model/gemma.h"

namespace rafter::model {
namespace {

// Older configs hold rope_theta and rope_scaling, for full layers, and rope_local_base_freq; newer ones a
// rope_parameters for each kind of layer.
base::Status read_ropes(const Config& config, GemmaTraits& traits) {
  constexpr double kFullTheta = 1000000.0, kSlidingTheta = 10000.0;
  RAFTER_ASSIGN(const Config parameters, config.object("rope_parameters"));
  RAFTER_ASSIGN(const Config sliding, parameters.object("sliding_attention"));
  RAFTER_ASSIGN(Config full, parameters.object("full_attention"));
  if (!config.has("rope_parameters")) {
    RAFTER_ASSIGN(full, config.object("rope_scaling"));
  }
  RAFTER_ASSIGN(const double older_full, config.number("rope_theta", kFullTheta));
  RAFTER_ASSIGN(const double older_sliding, config.number("rope_local_base_freq", kSlidingTheta));
  RAFTER_ASSIGN(const double full_theta, full.number("rope_theta", older_full));
  RAFTER_ASSIGN(const double sliding_theta, sliding.number("rope_theta", older_sliding));
  RAFTER_ASSIGN(traits.full_rope, make_rope_table(config, full, full_theta, traits.head_dim));
  RAFTER_ASSIGN(traits.sliding_rope, make_rope_table(config, sliding, sliding_theta, traits.head_dim));
  return {};
}

}  // namespace

base::Result<std::shared_ptr<const Model>> load_gemma3(const format::Checkpoint& checkpoint,
                                                       const Config& config) {
  GemmaTraits traits;
  traits.architecture = "gemma3";
  traits.qk_norm = true;
  RAFTER_TRY(read_gemma_sizes(config, {8, 131072, 1e-6}, traits.sizes));
  RAFTER_ASSIGN(traits.ffn_width, config.integer("intermediate_size"));
  RAFTER_ASSIGN(traits.kv_heads, config.integer("num_key_value_heads", 4));
  RAFTER_ASSIGN(traits.head_dim, config.integer("head_dim", 256));
  RAFTER_TRY(check_head_dim(config, traits.head_dim));
  RAFTER_ASSIGN(const int64_t pattern, config.integer("sliding_window_pattern", 6));
  RAFTER_ASSIGN(traits.windows,
                sliding_windows(config, [=](int64_t l) { return pattern > 0 && (l + 1) % pattern != 0; }));
  RAFTER_ASSIGN(const double cap, config.number("attn_logit_softcapping", 0.0));
  traits.attention_softcap = static_cast<float>(cap);
  constexpr int64_t kLayersOf27B = 62;
  RAFTER_ASSIGN(traits.attention_scale, gemma_attention_scale(config, traits, 256.0, kLayersOf27B));
  RAFTER_TRY(read_ropes(config, traits));
  return load_gemma(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

// Gemma 2: every other layer slides, scores and logits are capped.
#include "model/dense.h"
#include "model/families.h"
#include "model/gemma.h"

namespace rafter::model {

base::Result<std::shared_ptr<const Model>> load_gemma2(const format::Checkpoint& checkpoint,
                                                       const Config& config) {
  GemmaTraits traits;
  traits.architecture = "gemma2";
  RAFTER_TRY(read_gemma_sizes(config, {}, traits.sizes));
  RAFTER_ASSIGN(traits.ffn_width, config.integer("intermediate_size"));
  RAFTER_ASSIGN(traits.kv_heads, config.integer("num_key_value_heads"));
  RAFTER_ASSIGN(traits.head_dim, config.integer("head_dim"));
  RAFTER_TRY(check_head_dim(config, traits.head_dim));
  RAFTER_ASSIGN(traits.windows, sliding_windows(config, [](int64_t l) { return l % 2 == 0; }));
  RAFTER_ASSIGN(const double cap, config.number("attn_logit_softcapping", 0.0));
  traits.attention_softcap = static_cast<float>(cap);
  constexpr int64_t kLayersOf27B = 46;
  RAFTER_ASSIGN(traits.attention_scale, gemma_attention_scale(config, traits, {}, kLayersOf27B));
  RAFTER_ASSIGN(traits.full_rope, make_rope(config, traits.head_dim, 10000.0));
  traits.sliding_rope = traits.full_rope;
  return load_gemma(checkpoint, config, std::move(traits));
}

}  // namespace rafter::model

// The block that Gemma 2 and 3 share, a norm before and after each of its halves: their files say where they
// differ. Gemma 4's is its own (gemma4.cpp).
#pragma once

#include <memory>
#include <vector>

#include "model/gemma_tensors.h"
#include "model/rope_config.h"

namespace rafter::model {

struct GemmaTraits {
  std::string architecture;
  GemmaSizes sizes;
  int64_t ffn_width = 0, kv_heads = 0, head_dim = 0;
  float attention_scale = 0;
  float attention_softcap = 0;   // of the scores; 0: none
  bool qk_norm = false;          // RMS norm over each head of q and k, before the rotation
  std::vector<int32_t> windows;  // per layer, 0: none
  RopeTable full_rope, sliding_rope;
};

base::Result<std::shared_ptr<const Model>> load_gemma(const format::Checkpoint& checkpoint,
                                                      const Config& config, GemmaTraits traits);

// 1/√query_pre_attn_scalar; in GGUF, which does not say, 1/√head_dim but for the model of `largest_layers`
// layers, whose scalar is width / heads.
base::Result<float> gemma_attention_scale(const Config& config, const GemmaTraits& traits,
                                          std::optional<double> default_scalar, int64_t largest_layers);

}  // namespace rafter::model

// Qwen3.5's model class, for the file that loads it (qwen3_5_load.cpp) and the one that emits it
// (qwen3_5.cpp).
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "model/dense.h"
#include "model/model.h"
#include "model/rope_config.h"
#include "model/weights.h"

namespace rafter::model {

struct HybridConfig {
  DenseConfig dense{};
  kernels::RecurrentShape delta;
  std::vector<bool> attends;  // per layer: full attention; false: delta net
  int64_t experts = 0, chosen = 0, expert_width = 0, shared_width = 0;  // 0 experts: dense
  bool normalize_routes = true;
  bool attention_bias = false;
};

struct AttentionWeights {
  plan::Linear q_proj, k_proj, v_proj, o_proj;  // q_proj: per head its query's rows, then its gate's
  const float *q_norm = nullptr, *k_norm = nullptr;
};

struct DeltaWeights {
  plan::Linear qkv, z, beta, alpha, out;
  const float *convolution = nullptr, *rate = nullptr, *bias = nullptr, *norm = nullptr;
};

struct FeedForwardWeights {
  plan::Linear gate, up, down;  // of the dense form, or of the shared expert
  plan::Linear router, shared_router;
  ExpertWeights experts;
};

struct HybridLayer {
  const float *attn_norm = nullptr, *ffn_norm = nullptr;
  int32_t cache_layer = 0;  // among the layers of its kind
  AttentionWeights attention;
  DeltaWeights delta;
  FeedForwardWeights ffn;
};

// The multi-token-prediction head: a layer of full attention over what two things make together, the state
// that the model ended at and the token that was chosen there; embedding and output head are the model's own.
struct DraftHead {
  plan::Linear join;  // [2 D, D]: rows 2 r and 2 r + 1 are the halves of row r of the stored [D, 2 D]
  const float *embedding_norm = nullptr, *hidden_norm = nullptr, *final_norm = nullptr;
  HybridLayer layer;
};

class HybridModel final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  std::vector<CacheLayer> cache_layers() const override;
  std::vector<kernels::RecurrentShape> state_layers() const override;
  void emit(plan::Emitter& e) const override;
  plan::Value emit_layer(plan::Emitter& e, int64_t l, plan::Value x) const override;

  base::Status draft_head() const override { return draft_status_; }
  std::vector<CacheLayer> draft_cache_layers() const override;
  void emit_draft(plan::Emitter& e) const override;

 private:
  friend class HybridLoader;

  plan::Value layer(plan::Emitter& e, const HybridLayer& w, bool attends, plan::Value x,
                    plan::Value angles) const;
  plan::Value attention(plan::Emitter& e, const HybridLayer& layer, plan::Value a, plan::Value angles) const;
  plan::Value delta_net(plan::Emitter& e, const HybridLayer& layer, plan::Value a) const;
  plan::Value gated(plan::Emitter& e, const FeedForwardWeights& w, plan::Value m) const;
  plan::Value mixture(plan::Emitter& e, const FeedForwardWeights& w, plan::Value m) const;

  ModelInfo info_;
  HybridConfig config_;
  RopeTable rope_;
  plan::Linear embed_tokens_, lm_head_;
  const float* final_norm_ = nullptr;
  std::vector<HybridLayer> layers_;
  Weights::Storage storage_;

  base::Status draft_status_;  // why there is no draft head
  std::optional<DraftHead> draft_;
  Weights::Storage draft_storage_;
};

}  // namespace rafter::model

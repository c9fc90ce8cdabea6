// Qwen3.5: three gated delta-net layers to one of gated full attention; dense, or with a mixture of experts
// and a shared expert beside it. qwen3_5_load.cpp reads it.
#include "model/qwen3_5.h"

#include <cmath>

#include "base/check.h"

namespace rafter::model {

using kernels::RecurrentShape;
using plan::Emitter;
using plan::Value;

std::vector<CacheLayer> HybridModel::cache_layers() const {
  const DenseConfig& c = config_.dense;
  const auto count = std::count(config_.attends.begin(), config_.attends.end(), true);
  return std::vector<CacheLayer>(static_cast<size_t>(count),
                                 {static_cast<int32_t>(c.kv_heads), static_cast<int32_t>(c.head_dim), 0});
}

std::vector<RecurrentShape> HybridModel::state_layers() const {
  const auto count = std::count(config_.attends.begin(), config_.attends.end(), false);
  return std::vector<RecurrentShape>(static_cast<size_t>(count), config_.delta);
}

std::vector<CacheLayer> HybridModel::draft_cache_layers() const {
  const DenseConfig& c = config_.dense;
  if (!draft_) return {};
  return {{static_cast<int32_t>(c.kv_heads), static_cast<int32_t>(c.head_dim), 0}};
}

void HybridModel::emit(Emitter& e) const {
  Value x = e.embed("embed_tokens", embed_tokens_.weight);
  const Value angles = e.rope_angles("rope_angles", rope_.pointed(e.context()));
  for (size_t l = 0; l < layers_.size(); ++l) {
    e.set_layer(static_cast<int32_t>(l));
    x = layer(e, layers_[l], config_.attends[l], x, angles);
    e.tap(fmt::format("layer.{}.hidden", l), x);
  }
  e.set_layer(-1);
  const Value wanted = e.select_wanted_rows("select_wanted", x);
  const Value z = e.rms_norm("final_norm", wanted, final_norm_, config_.dense.norm_epsilon);
  e.tap("final_norm", z);
  if (e.wants_head()) e.set_logits(e.matmul("lm_head", z, lm_head_));
}

Value HybridModel::emit_layer(Emitter& e, int64_t l, Value x) const {
  const auto at = static_cast<size_t>(l);
  const Value angles = e.rope_angles("rope_angles", rope_.pointed(e.context()));
  e.set_layer(static_cast<int32_t>(l));
  const Value y = layer(e, layers_[at], config_.attends[at], x, angles);
  e.tap(fmt::format("layer.{}.hidden", l), y);
  return y;
}

// The stored matrix takes both inputs side by side. Its rows' halves are rows of their own here, so each
// input goes through all of them and half of what comes out is left: that saves an op that joins rows, and
// costs one more read of the smallest matrix there is.
void HybridModel::emit_draft(Emitter& e) const {
  RAFTER_CHECK(draft_.has_value(), "a model without a draft head");
  const DraftHead& w = *draft_;
  const float epsilon = config_.dense.norm_epsilon;
  const auto width = static_cast<int32_t>(config_.dense.width);
  const Value next = e.embed("draft_embed", embed_tokens_.weight);
  const Value hidden = e.input("hidden", width);
  const Value angles = e.rope_angles("rope_angles", rope_.pointed(e.context()));
  e.set_layer(static_cast<int32_t>(layers_.size()));
  const Value a = e.rms_norm("draft_embedding_norm", next, w.embedding_norm, epsilon);
  const Value b = e.rms_norm("draft_hidden_norm", hidden, w.hidden_norm, epsilon);
  const Value from_next = e.split_gate("draft_next", e.matmul("draft_join", a, w.join), width).query;
  const Value from_hidden = e.split_gate("draft_state", e.matmul("draft_join", b, w.join), width).gate;
  const Value x = layer(e, w.layer, true, e.add("draft_sum", from_next, from_hidden), angles);
  e.set_layer(-1);
  const Value wanted = e.select_wanted_rows("select_wanted", x);
  const Value z = e.rms_norm("draft_norm", wanted, w.final_norm, epsilon);
  e.tap("draft_hidden", z);
  e.set_logits(e.matmul("lm_head", z, lm_head_));
}

Value HybridModel::layer(Emitter& e, const HybridLayer& w, bool attends, Value x, Value angles) const {
  const float epsilon = config_.dense.norm_epsilon;
  const Value a = e.rms_norm("attn_norm", x, w.attn_norm, epsilon);
  const Value mixed = attends ? attention(e, w, a, angles) : delta_net(e, w, a);
  const Value h = e.add("attn_residual", x, mixed);
  const Value m = e.rms_norm("ffn_norm", h, w.ffn_norm, epsilon);
  return e.add("ffn_residual", h, config_.experts > 0 ? mixture(e, w.ffn, m) : gated(e, w.ffn, m));
}

Value HybridModel::attention(Emitter& e, const HybridLayer& layer, Value a, Value angles) const {
  const AttentionWeights& w = layer.attention;
  const DenseConfig& c = config_.dense;
  const plan::Rope rope = rope_.pointed(e.context());
  const auto heads = static_cast<int32_t>(c.heads), kv_heads = static_cast<int32_t>(c.kv_heads);
  const plan::AttentionShape shape = {heads, kv_heads, static_cast<int32_t>(c.head_dim), 0,
                                      1.0f / std::sqrt(static_cast<float>(c.head_dim))};
  const auto [query, gate] = e.split_gate("split_gate", e.matmul("q_proj", a, w.q_proj), heads);
  Value k = e.matmul("k_proj", a, w.k_proj);
  const Value v = e.matmul("v_proj", a, w.v_proj);
  Value q = e.rms_norm_per_head("q_norm", query, heads, w.q_norm, c.norm_epsilon);
  k = e.rms_norm_per_head("k_norm", k, kv_heads, w.k_norm, c.norm_epsilon);
  q = e.rope("q_rope", q, heads, rope, angles);
  k = e.rope("k_rope", k, kv_heads, rope, angles);
  const plan::KeysValues cache = e.append_keys_values("kv_append", k, v, shape, layer.cache_layer);
  const Value attended = e.attention("attention", q, cache, shape);
  return e.matmul("o_proj", e.sigmoid_gate("attn_gate", attended, gate), w.o_proj);
}

Value HybridModel::delta_net(Emitter& e, const HybridLayer& layer, Value a) const {
  const DeltaWeights& w = layer.delta;
  const RecurrentShape& shape = config_.delta;
  const float key_scale = 1.0f / std::sqrt(static_cast<float>(shape.key_dim));
  constexpr float kEpsilon = 1e-6f;  // fixed, on the sum of squares
  const Value qkv = e.matmul("delta_qkv", a, w.qkv);
  const Value z = e.matmul("delta_z", a, w.z);
  const Value beta = e.matmul("delta_beta", a, w.beta);
  const Value alpha = e.matmul("delta_alpha", a, w.alpha);
  plan::QueriesKeysValues row =
      e.short_convolution("delta_conv", qkv, w.convolution, shape, layer.cache_layer);
  row.q = e.l2_norm_per_head("delta_q_norm", row.q, shape.key_heads, kEpsilon, key_scale);
  row.k = e.l2_norm_per_head("delta_k_norm", row.k, shape.key_heads, kEpsilon, 1.0f);
  const Value gates = e.delta_gates("delta_gates", alpha, beta, w.rate, w.bias);
  const Value o = e.gated_delta("gated_delta", row, gates, shape, layer.cache_layer);
  const Value normed =
      e.gated_rms_norm_per_head("delta_norm", o, z, shape.value_heads, w.norm, config_.dense.norm_epsilon);
  return e.matmul("delta_out", normed, w.out);
}

Value HybridModel::gated(Emitter& e, const FeedForwardWeights& w, Value m) const {
  const Value gate = e.matmul("ffn_gate", m, w.gate);
  const Value up = e.matmul("ffn_up", m, w.up);
  return e.matmul("ffn_down", e.swiglu("swiglu", gate, up), w.down);
}

Value HybridModel::mixture(Emitter& e, const FeedForwardWeights& w, Value m) const {
  plan::RouterShape shape;
  shape.chosen = static_cast<int32_t>(config_.chosen);
  shape.weights =
      config_.normalize_routes ? kernels::RouterWeights::softmax_chosen : kernels::RouterWeights::softmax;
  const Value routes = e.router("router", e.exact_matmul("router_logits", m, w.router), shape);
  const Value shared =
      e.sigmoid_gate("shared_sigmoid", gated(e, w, m), e.matmul("shared_router", m, w.shared_router));
  const Value chosen = e.experts("experts", m, routes, w.experts.emitted(kernels::GatedActivation::swiglu));
  return e.add("ffn_sum", chosen, shared);
}

}  // namespace rafter::model

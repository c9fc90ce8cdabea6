// Gemma 4, all sizes: sliding and full layers with head sizes of their own, norms on queries, keys and
// values, a scale at the end of each layer. E2B and E4B give every layer an input of its own and let the last
// layers share keys and values; 12B and 31B take full layers' values from their keys; 26B-A4B adds experts
// beside the feed-forward.
#include <cmath>

#include "model/dense.h"
#include "model/families.h"
#include "model/gemma_tensors.h"
#include "model/rope_config.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;
using plan::AttentionShape;
using plan::Emitter;
using plan::KeysValues;
using plan::Linear;
using plan::Value;

namespace {

struct Gemma4Config {
  GemmaSizes sizes;
  std::vector<int32_t> windows;     // per layer, 0: none
  std::vector<int64_t> ffn_widths;  // per layer
  std::vector<int64_t> kv_heads;    // per layer
  int64_t head_dim = 0;             // of sliding layers
  int64_t full_head_dim = 0;        // of full layers
  bool keys_are_values = false;     // in full layers
  int64_t shared_layers = 0;        // the last ones, which read the keys and values of others
  int64_t layer_input = 0;          // P, width of what each layer is given of its own; 0: nothing
  int64_t experts = 0, chosen = 0, expert_width = 0;  // 0 experts: none
};

struct Gemma4Layer {
  AttentionShape attention;
  size_t donor = 0;                       // the layer whose keys and values it reads; itself unless it shares
  int32_t cache_layer = 0;                // the donor's
  Linear q_proj, k_proj, v_proj, o_proj;  // v_proj: none where the keys are the values
  const float *attn_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr, *attn_post_norm = nullptr;
  Linear ffn_gate, ffn_up, ffn_down;
  const float *ffn_norm = nullptr, *ffn_post_norm = nullptr;
  Linear router;
  ExpertWeights experts;
  const float *router_norm = nullptr, *expert_scale = nullptr;
  const float *dense_post_norm = nullptr, *experts_norm = nullptr, *experts_post_norm = nullptr;
  Linear input_gate, input_proj;
  const float* input_norm = nullptr;
  float scale = 1;
};

class Gemma4Model final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }

  std::vector<CacheLayer> cache_layers() const override {
    std::vector<CacheLayer> layers;
    for (size_t l = 0; l < layers_.size(); ++l) {
      const AttentionShape& shape = layers_[l].attention;
      if (layers_[l].donor == l) layers.push_back({shape.kv_heads, shape.head_dim, shape.window});
    }
    return layers;
  }

  void emit(Emitter& e) const override {
    const float embed_scale = std::sqrt(static_cast<float>(config_.sizes.width));
    Value x = e.embed("embed_tokens", embed_tokens_.weight, embed_scale);
    const Shared shared = emit_shared(e, x);
    std::vector<KeysValues> caches(layers_.size());
    for (size_t l = 0; l < layers_.size(); ++l) x = layer(e, l, x, shared, caches);
    e.set_layer(-1);
    const Value wanted = e.select_wanted_rows("select_wanted", x);
    const Value z = e.rms_norm("final_norm", wanted, final_norm_, config_.sizes.norm_epsilon);
    e.tap("final_norm", z);
    if (!e.wants_head()) return;
    const Value logits = e.matmul("lm_head", z, lm_head_);
    const float cap = config_.sizes.final_softcap;
    e.set_logits(cap > 0 ? e.softcap("logits_softcap", logits, cap) : logits);
  }

  Value emit_layer(Emitter& e, int64_t l, Value x) const override {
    const Gemma4Layer& w = layers_[static_cast<size_t>(l)];
    const float embed_scale = std::sqrt(static_cast<float>(config_.sizes.width));
    Value embedding;
    if (config_.layer_input > 0) embedding = e.embed("embed_tokens", embed_tokens_.weight, embed_scale);
    const Shared shared = emit_shared(e, embedding);
    std::vector<KeysValues> caches(layers_.size());
    if (w.donor != static_cast<size_t>(l))
      caches[w.donor] = e.keys_values_input("shared_kv", w.attention, w.cache_layer);
    return layer(e, static_cast<size_t>(l), x, shared, caches);
  }

 private:
  friend class Gemma4Loader;

  // What all layers read.
  struct Shared {
    Value full_angles, sliding_angles;
    Value layer_inputs;  // [B, L · P]
  };

  Shared emit_shared(Emitter& e, Value embedding) const {
    Shared shared;
    shared.full_angles = e.rope_angles("full_angles", full_rope_.pointed(e.context()));
    shared.sliding_angles = e.rope_angles("sliding_angles", sliding_rope_.pointed(e.context()));
    if (config_.layer_input == 0) return shared;
    // (norm(projected / √D) + table · √P) / √2. The norm undoes 1/√D but for its epsilon, which takes it
    // over; 1/√2 went into the norm's weight and the table's scale.
    const GemmaSizes& c = config_.sizes;
    const auto layers = static_cast<int32_t>(c.layers);
    const float table_scale = std::sqrt(static_cast<float>(config_.layer_input) / 2);
    const Value table = e.embed("embed_per_layer", embed_per_layer_.weight, table_scale);
    const Value projected = e.matmul("per_layer_projection", embedding, per_layer_projection_);
    const float epsilon = c.norm_epsilon * static_cast<float>(c.width);
    const Value normed = e.rms_norm_per_head("per_layer_norm", projected, layers, per_layer_norm_, epsilon);
    shared.layer_inputs = e.add("per_layer_inputs", normed, table);
    return shared;
  }

  Value layer(Emitter& e, size_t l, Value x, const Shared& shared, std::vector<KeysValues>& caches) const {
    const Gemma4Layer& w = layers_[l];
    const float epsilon = config_.sizes.norm_epsilon;
    e.set_layer(static_cast<int32_t>(l));
    const Value a = e.rms_norm("attn_norm", x, w.attn_norm, epsilon);
    const Value o = e.matmul("o_proj", attention(e, l, a, shared, caches), w.o_proj);
    const Value h = e.add("attn_residual", x, e.rms_norm("attn_post_norm", o, w.attn_post_norm, epsilon));

    const Value m = e.rms_norm("ffn_norm", h, w.ffn_norm, epsilon);
    const Value gate = e.matmul("ffn_gate", m, w.ffn_gate);
    const Value up = e.matmul("ffn_up", m, w.ffn_up);
    Value f = e.matmul("ffn_down", e.geglu("geglu", gate, up), w.ffn_down);
    if (config_.experts > 0) {
      f = e.rms_norm("dense_post_norm", f, w.dense_post_norm, epsilon);
      f = e.add("ffn_sum", f, experts(e, w, h));
    }
    Value y = e.add("ffn_residual", h, e.rms_norm("ffn_post_norm", f, w.ffn_post_norm, epsilon));
    if (config_.layer_input > 0) {
      const int64_t own = static_cast<int64_t>(l) * config_.layer_input;
      const Value input_gate = e.matmul("layer_input_gate", y, w.input_gate);
      const Value input = e.geglu("layer_input", input_gate, shared.layer_inputs, own);
      const Value p = e.matmul("layer_input_proj", input, w.input_proj);
      y = e.add("layer_input_residual", y, e.rms_norm("layer_input_norm", p, w.input_norm, epsilon));
    }
    if (w.scale != 1) y = e.scale("layer_scale", y, w.scale);
    e.tap(fmt::format("layer.{}.hidden", l), y);
    return y;
  }

  Value attention(Emitter& e, size_t l, Value a, const Shared& shared,
                  std::vector<KeysValues>& caches) const {
    const Gemma4Layer& w = layers_[l];
    const AttentionShape& shape = w.attention;
    const float epsilon = config_.sizes.norm_epsilon;
    const bool slides = shape.window > 0;
    const plan::Rope rope = (slides ? sliding_rope_ : full_rope_).pointed(e.context());
    const Value angles = slides ? shared.sliding_angles : shared.full_angles;

    Value q = e.matmul("q_proj", a, w.q_proj);
    q = e.rms_norm_per_head("q_norm", q, shape.heads, w.q_norm, epsilon);
    q = e.rope("q_rope", q, shape.heads, rope, angles);
    if (w.donor == l) {
      const Value projected = e.matmul("k_proj", a, w.k_proj);
      Value v = w.v_proj.weight.data == nullptr ? projected : e.matmul("v_proj", a, w.v_proj);
      Value k = e.rms_norm_per_head("k_norm", projected, shape.kv_heads, w.k_norm, epsilon);
      k = e.rope("k_rope", k, shape.kv_heads, rope, angles);
      v = e.rms_norm_per_head("v_norm", v, shape.kv_heads, nullptr, epsilon);
      caches[l] = e.append_keys_values("kv_append", k, v, shape, w.cache_layer);
    }
    return e.attention("attention", q, caches[w.donor], shape);
  }

  // The router sees the stream itself, under a norm of its own.
  Value experts(Emitter& e, const Gemma4Layer& w, Value h) const {
    const float epsilon = config_.sizes.norm_epsilon;
    plan::RouterShape shape;
    shape.chosen = static_cast<int32_t>(config_.chosen);
    shape.weights = kernels::RouterWeights::softmax_chosen;
    shape.expert_scale = w.expert_scale;
    const Value r = e.rms_norm("router_norm", h, w.router_norm, epsilon);
    const Value routes = e.router("router", e.exact_matmul("router_logits", r, w.router), shape);
    const Value m = e.rms_norm("experts_norm", h, w.experts_norm, epsilon);
    const Value y = e.experts("experts", m, routes, w.experts.emitted(kernels::GatedActivation::geglu));
    return e.rms_norm("experts_post_norm", y, w.experts_post_norm, epsilon);
  }

  ModelInfo info_;
  Gemma4Config config_;
  RopeTable full_rope_, sliding_rope_;
  Linear embed_tokens_, embed_per_layer_, per_layer_projection_, lm_head_;
  const float *final_norm_ = nullptr, *per_layer_norm_ = nullptr;
  std::vector<Gemma4Layer> layers_;
  Weights::Storage storage_;
};

class Gemma4Loader {
 public:
  Gemma4Loader(const format::Checkpoint& checkpoint, const Config& config)
      : config_(config), tensors_(checkpoint, config, /*norm_offset=*/0) {}

  base::Result<std::shared_ptr<const Model>> load() {
    auto model = std::make_shared<Gemma4Model>();
    Gemma4Config& c = model->config_;
    RAFTER_TRY(read_gemma_sizes(config_, {}, c.sizes));
    RAFTER_TRY(read_attention(c));
    RAFTER_TRY(read_feed_forward(c));
    RAFTER_TRY(load_ropes(*model));
    RAFTER_TRY(tensors_.load_ends(c.sizes, model->info_, model->embed_tokens_, model->lm_head_));
    RAFTER_ASSIGN(model->final_norm_, tensors_.norm("final_norm", 0, c.sizes.width));
    if (c.layer_input > 0) RAFTER_TRY(load_layer_inputs(*model));
    for (int64_t l = 0; l < c.sizes.layers; ++l) {
      Gemma4Layer layer;
      RAFTER_TRY(load_attention(c, l, model->layers_, layer));
      RAFTER_TRY(load_feed_forward(c, l, layer));
      model->layers_.push_back(std::move(layer));
    }
    RAFTER_TRY(tensors_.finish([&](const std::string& name) { return is_unused(c, name); }, model->info_));
    model->info_.architecture = "gemma4";
    model->info_.kv_heads = c.kv_heads[0];
    model->info_.head_dim = c.head_dim;
    model->storage_ = tensors_.weights().take_storage();
    return std::shared_ptr<const Model>(std::move(model));
  }

 private:
  Error impossible(const std::string& what) const {
    return Error{ErrorCode::invalid_data, "impossible sizes: " + what, config_.where(), ""};
  }

  // Nothing here has a default that is the same everywhere: what decides a shape must be said.
  base::Status read_attention(Gemma4Config& c) {
    const int64_t layers = c.sizes.layers;
    RAFTER_ASSIGN(const int64_t window, config_.integer("sliding_window"));
    RAFTER_ASSIGN(const std::vector<std::string> types, config_.strings("layer_types"));
    if (window < 1 || static_cast<int64_t>(types.size()) != layers) {
      return impossible(
          fmt::format("{} layer types for {} layers, a window of {}", types.size(), layers, window));
    }
    for (const std::string& type : types) {
      if (type != "sliding_attention" && type != "full_attention") {
        return Error{ErrorCode::unsupported, fmt::format("a layer of type \"{}\" is not supported", type),
                     config_.where() + ": layer_types", "supported: sliding_attention, full_attention"};
      }
      c.windows.push_back(type == "sliding_attention" ? static_cast<int32_t>(window) : 0);
    }
    RAFTER_ASSIGN(c.head_dim, config_.integer("head_dim"));
    RAFTER_ASSIGN(c.full_head_dim, config_.integer("global_head_dim"));
    RAFTER_TRY(check_head_dim(config_, c.head_dim));
    RAFTER_TRY(check_head_dim(config_, c.full_head_dim));
    RAFTER_ASSIGN(c.keys_are_values, config_.boolean("attention_k_eq_v", false));
    RAFTER_ASSIGN(c.kv_heads, config_.integers_per_layer("num_key_value_heads", layers));
    if (c.keys_are_values && config_.has("num_global_key_value_heads")) {
      RAFTER_ASSIGN(const int64_t full, config_.integer("num_global_key_value_heads"));
      for (size_t l = 0; l < c.windows.size(); ++l) {
        if (c.windows[l] == 0) c.kv_heads[l] = full;
      }
    }
    for (int64_t heads : c.kv_heads) RAFTER_TRY(check_kv_heads(config_, c.sizes.heads, heads));
    RAFTER_ASSIGN(const bool biased, config_.boolean("attention_bias", false));
    if (biased) {
      return Error{ErrorCode::unsupported, "biases are not supported for gemma4",
                   config_.where() + ": attention_bias", ""};
    }
    RAFTER_ASSIGN(c.shared_layers, config_.integer("num_kv_shared_layers"));
    if (c.shared_layers >= layers) {
      return impossible(fmt::format("{} of {} layers share keys and values", c.shared_layers, layers));
    }
    return {};
  }

  base::Status read_feed_forward(Gemma4Config& c) {
    RAFTER_ASSIGN(c.ffn_widths, config_.integers_per_layer("intermediate_size", c.sizes.layers));
    RAFTER_ASSIGN(const bool doubled, config_.boolean("use_double_wide_mlp", false));
    const int64_t first_shared = c.sizes.layers - c.shared_layers;
    for (int64_t l = 0; l < c.sizes.layers; ++l) {
      int64_t& width = c.ffn_widths[static_cast<size_t>(l)];
      if (width < 1 || width > 1 << 22) return impossible(fmt::format("a feed-forward of {}", width));
      if (doubled && l >= first_shared) width *= 2;
    }
    RAFTER_ASSIGN(c.layer_input, config_.integer("hidden_size_per_layer_input"));
    if (c.layer_input > 1 << 16) return impossible(fmt::format("a layer's own input of {}", c.layer_input));
    RAFTER_ASSIGN(const bool mixes, config_.boolean("enable_moe_block", false));
    if (!mixes) return {};
    RAFTER_ASSIGN(c.experts, config_.integer("num_experts"));
    RAFTER_ASSIGN(c.chosen, config_.integer("top_k_experts"));
    RAFTER_ASSIGN(c.expert_width, config_.integer("moe_intermediate_size"));
    if (c.experts < 1 || c.experts > kernels::RouterArgs::kMostExperts || c.chosen < 1 ||
        c.chosen > std::min<int64_t>(c.experts, kernels::RouterArgs::kMostChosen) || c.expert_width < 1 ||
        c.expert_width > 1 << 22) {
      return impossible(fmt::format("{} of {} experts of width {}", c.chosen, c.experts, c.expert_width));
    }
    return {};
  }

  base::Status load_ropes(Gemma4Model& model) {
    const Gemma4Config& c = model.config_;
    RAFTER_ASSIGN(const Config parameters, config_.object("rope_parameters"));
    RAFTER_ASSIGN(const Config full, parameters.object("full_attention"));
    RAFTER_ASSIGN(const Config sliding, parameters.object("sliding_attention"));
    RAFTER_ASSIGN(const double full_theta, full.number("rope_theta"));
    RAFTER_ASSIGN(const double sliding_theta, sliding.number("rope_theta"));
    RAFTER_ASSIGN(model.full_rope_, make_rope_table(config_, full, full_theta, c.full_head_dim));
    RAFTER_ASSIGN(model.sliding_rope_, make_rope_table(config_, sliding, sliding_theta, c.head_dim));
    if (!config_.from_gguf() || !tensors_.weights().has("rope_freqs.weight")) return {};
    // GGUF's form of the proportional rotation: 1, and 1e30 for the pairs that do not turn.
    const auto pairs = static_cast<int64_t>(model.full_rope_.frequencies.size());
    RAFTER_ASSIGN(const float* divisors, tensors_.weights().vector("rope_freqs.weight", pairs));
    for (int64_t i = 0; i < pairs; ++i) {
      if (!(divisors[i] > 0)) return impossible(fmt::format("a rotary frequency divided by {}", divisors[i]));
      float& frequency = model.full_rope_.frequencies[static_cast<size_t>(i)];
      frequency = divisors[i] < 1e29f ? frequency / divisors[i] : 0.0f;
    }
    return {};
  }

  base::Status load_layer_inputs(Gemma4Model& model) {
    const Gemma4Config& c = model.config_;
    const int64_t width = c.sizes.layers * c.layer_input;
    RAFTER_ASSIGN(const int64_t rows, config_.integer("vocab_size_per_layer_input", c.sizes.vocabulary));
    if (rows < c.sizes.vocabulary) {
      return impossible(fmt::format("inputs of layers for {} of {} tokens", rows, c.sizes.vocabulary));
    }
    RAFTER_ASSIGN(model.embed_per_layer_, tensors_.linear("embed_per_layer", 0, rows, width));
    RAFTER_ASSIGN(model.per_layer_projection_,
                  tensors_.linear("per_layer_projection", 0, width, c.sizes.width));
    RAFTER_ASSIGN(model.per_layer_norm_,
                  tensors_.weights().vector(tensors_.name("per_layer_norm") + ".weight", c.layer_input,
                                            [](float stored) { return stored * std::sqrt(0.5f); }));
    return {};
  }

  // Keys and values are the layer's own, or those of the last layer of its kind that has some.
  base::Status load_attention(const Gemma4Config& c, int64_t l, const std::vector<Gemma4Layer>& before,
                              Gemma4Layer& w) {
    const auto at = static_cast<size_t>(l);
    const bool slides = c.windows[at] > 0;
    const int64_t head_dim = slides ? c.head_dim : c.full_head_dim, width = c.sizes.width;
    const int64_t q_width = c.sizes.heads * head_dim, kv_width = c.kv_heads[at] * head_dim;
    w.attention = {static_cast<int32_t>(c.sizes.heads),
                   static_cast<int32_t>(c.kv_heads[at]),
                   static_cast<int32_t>(head_dim),
                   c.windows[at],
                   1.0f,
                   0};
    RAFTER_ASSIGN(w.attn_norm, tensors_.norm("attn_norm", l, width));
    RAFTER_ASSIGN(w.q_proj, tensors_.linear("q_proj", l, q_width, width));
    RAFTER_ASSIGN(w.q_norm, tensors_.norm("q_norm", l, head_dim));
    RAFTER_ASSIGN(w.o_proj, tensors_.linear("o_proj", l, width, q_width));
    RAFTER_ASSIGN(w.attn_post_norm, tensors_.norm("attn_post_norm", l, width));
    const int64_t first_shared = c.sizes.layers - c.shared_layers;
    if (l >= first_shared) {
      size_t donor = static_cast<size_t>(first_shared);
      while (donor > 0 && c.windows[donor - 1] != c.windows[at]) --donor;
      if (donor == 0) return impossible(fmt::format("layer {} shares, and no layer of its kind has keys", l));
      w.donor = donor - 1;
      w.cache_layer = before[w.donor].cache_layer;
      w.attention.kv_heads = before[w.donor].attention.kv_heads;
      return {};
    }
    w.donor = at;
    w.cache_layer = static_cast<int32_t>(l);
    RAFTER_ASSIGN(w.k_proj, tensors_.linear("k_proj", l, kv_width, width));
    RAFTER_ASSIGN(w.k_norm, tensors_.norm("k_norm", l, head_dim));
    const bool has_values = config_.from_gguf() ? tensors_.has("v_proj", l) : slides || !c.keys_are_values;
    if (has_values) {
      RAFTER_ASSIGN(w.v_proj, tensors_.linear("v_proj", l, kv_width, width));
    }
    return {};
  }

  base::Status load_feed_forward(const Gemma4Config& c, int64_t l, Gemma4Layer& w) {
    const int64_t width = c.sizes.width, hidden = c.ffn_widths[static_cast<size_t>(l)];
    RAFTER_ASSIGN(w.ffn_norm, tensors_.norm("ffn_norm", l, width));
    RAFTER_ASSIGN(w.ffn_gate, tensors_.linear("ffn_gate", l, hidden, width));
    RAFTER_ASSIGN(w.ffn_up, tensors_.linear("ffn_up", l, hidden, width));
    RAFTER_ASSIGN(w.ffn_down, tensors_.linear("ffn_down", l, width, hidden));
    RAFTER_ASSIGN(w.ffn_post_norm, tensors_.norm("ffn_post_norm", l, width));
    if (c.experts > 0) RAFTER_TRY(load_experts(c, l, w));
    if (c.layer_input > 0) {
      RAFTER_ASSIGN(w.input_gate, tensors_.linear("layer_input_gate", l, c.layer_input, width));
      RAFTER_ASSIGN(w.input_proj, tensors_.linear("layer_input_proj", l, width, c.layer_input));
      RAFTER_ASSIGN(w.input_norm, tensors_.norm("layer_input_norm", l, width));
    }
    if (tensors_.has("layer_scale", l)) {
      RAFTER_ASSIGN(const float* scale, tensors_.weights().vector(tensors_.name("layer_scale", l), 1));
      w.scale = *scale;
    }
    return {};
  }

  base::Status load_experts(const Gemma4Config& c, int64_t l, Gemma4Layer& w) {
    const int64_t width = c.sizes.width;
    const float root = 1.0f / std::sqrt(static_cast<float>(width));
    Weights& weights = tensors_.weights();
    RAFTER_ASSIGN(w.router_norm, weights.vector(tensors_.name("router_norm", l), width,
                                                [root](float stored) { return stored * root; }));
    RAFTER_ASSIGN(w.expert_scale, weights.vector(tensors_.name("expert_scale", l), c.experts));
    RAFTER_ASSIGN(w.router, tensors_.linear("router", l, c.experts, width));
    RAFTER_ASSIGN(w.dense_post_norm, tensors_.norm("dense_post_norm", l, width));
    RAFTER_ASSIGN(w.experts_norm, tensors_.norm("experts_norm", l, width));
    RAFTER_ASSIGN(w.experts_post_norm, tensors_.norm("experts_post_norm", l, width));
    RAFTER_ASSIGN(w.experts, weights.experts(expert_names(l), c.experts, c.expert_width, width));
    return {};
  }

  ExpertNames expert_names(int64_t l) const {
    if (config_.from_gguf()) {
      const std::string at = fmt::format("blk.{}.", l);
      return {at + "ffn_gate_exps",    at + "ffn_up_exps",   at + "ffn_down_exps",
              at + "ffn_gate_up_exps", at + "ffn_down_exps", ""};
    }
    const std::string at = fmt::format("{}layers.{}.experts.", tensors_.prefix(), l);
    return {at + "switch_glu.gate_proj", at + "switch_glu.up_proj", at + "switch_glu.down_proj",
            at + "gate_up_proj",         at + "down_proj",          ""};
  }

  // Published checkpoints keep the keys and values of layers that share others'.
  bool is_unused(const Gemma4Config& c, const std::string& name) const {
    for (int64_t l = c.sizes.layers - c.shared_layers; l < c.sizes.layers; ++l) {
      for (const char* role : {"k_proj", "v_proj", "k_norm"}) {
        if (name.rfind(tensors_.name(role, l) + ".", 0) == 0) return true;
      }
    }
    return false;
  }

  const Config& config_;
  GemmaWeights tensors_;
};

}  // namespace

base::Result<std::shared_ptr<const Model>> load_gemma4(const format::Checkpoint& checkpoint,
                                                       const Config& config) {
  return Gemma4Loader(checkpoint, config).load();
}

}  // namespace rafter::model

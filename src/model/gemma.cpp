#include "model/gemma.h"

#include <cmath>

namespace rafter::model {

using base::Error;
using base::ErrorCode;
using plan::AttentionShape;
using plan::Emitter;
using plan::Linear;
using plan::Value;

namespace {

struct GemmaLayer {
  const float *attn_norm = nullptr, *attn_post_norm = nullptr, *ffn_norm = nullptr, *ffn_post_norm = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
  Linear q_proj, k_proj, v_proj, o_proj, ffn_gate, ffn_up, ffn_down;
  AttentionShape attention;
};

class GemmaModel final : public Model {
 public:
  explicit GemmaModel(GemmaTraits traits) : traits_(std::move(traits)) {}

  const ModelInfo& info() const override { return info_; }

  std::vector<CacheLayer> cache_layers() const override {
    std::vector<CacheLayer> layers;
    for (const GemmaLayer& layer : layers_)
      layers.push_back({layer.attention.kv_heads, layer.attention.head_dim, layer.attention.window});
    return layers;
  }

  void emit(Emitter& e) const override {
    const float embed_scale = std::sqrt(static_cast<float>(traits_.sizes.width));
    Value x = e.embed("embed_tokens", embed_tokens_.weight, embed_scale);
    const Angles angles = emit_angles(e);
    for (int64_t l = 0; l < traits_.sizes.layers; ++l) x = layer(e, l, x, angles);
    e.set_layer(-1);
    const Value wanted = e.select_wanted_rows("select_wanted", x);
    const Value z = e.rms_norm("final_norm", wanted, final_norm_, traits_.sizes.norm_epsilon);
    e.tap("final_norm", z);
    if (!e.wants_head()) return;
    const Value logits = e.matmul("lm_head", z, lm_head_);
    const float cap = traits_.sizes.final_softcap;
    e.set_logits(cap > 0 ? e.softcap("logits_softcap", logits, cap) : logits);
  }

  Value emit_layer(Emitter& e, int64_t l, Value x) const override { return layer(e, l, x, emit_angles(e)); }

 private:
  friend class GemmaLoader;

  struct Angles {
    Value full, sliding;
  };
  Angles emit_angles(Emitter& e) const {
    return {e.rope_angles("full_angles", traits_.full_rope.pointed(e.context())),
            e.rope_angles("sliding_angles", traits_.sliding_rope.pointed(e.context()))};
  }

  Value layer(Emitter& e, int64_t l, Value x, const Angles& both) const {
    const GemmaLayer& w = layers_[static_cast<size_t>(l)];
    const AttentionShape& shape = w.attention;
    const float epsilon = traits_.sizes.norm_epsilon;
    const bool slides = shape.window > 0;
    const plan::Rope rope = (slides ? traits_.sliding_rope : traits_.full_rope).pointed(e.context());
    const Value angles = slides ? both.sliding : both.full;
    e.set_layer(static_cast<int32_t>(l));

    const Value a = e.rms_norm("attn_norm", x, w.attn_norm, epsilon);
    Value q = e.matmul("q_proj", a, w.q_proj);
    Value k = e.matmul("k_proj", a, w.k_proj);
    const Value v = e.matmul("v_proj", a, w.v_proj);
    if (w.q_norm != nullptr) {
      q = e.rms_norm_per_head("q_norm", q, shape.heads, w.q_norm, epsilon);
      k = e.rms_norm_per_head("k_norm", k, shape.kv_heads, w.k_norm, epsilon);
    }
    q = e.rope("q_rope", q, shape.heads, rope, angles);
    k = e.rope("k_rope", k, shape.kv_heads, rope, angles);
    const plan::KeysValues cache = e.append_keys_values("kv_append", k, v, shape, static_cast<int32_t>(l));
    const Value attended = e.attention("attention", q, cache, shape);
    const Value o = e.matmul("o_proj", attended, w.o_proj);
    const Value h = e.add("attn_residual", x, e.rms_norm("attn_post_norm", o, w.attn_post_norm, epsilon));

    const Value m = e.rms_norm("ffn_norm", h, w.ffn_norm, epsilon);
    const Value gate = e.matmul("ffn_gate", m, w.ffn_gate);
    const Value up = e.matmul("ffn_up", m, w.ffn_up);
    const Value f = e.matmul("ffn_down", e.geglu("geglu", gate, up), w.ffn_down);
    const Value y = e.add("ffn_residual", h, e.rms_norm("ffn_post_norm", f, w.ffn_post_norm, epsilon));
    e.tap(fmt::format("layer.{}.hidden", l), y);
    return y;
  }

  ModelInfo info_;
  GemmaTraits traits_;
  Linear embed_tokens_, lm_head_;
  const float* final_norm_ = nullptr;
  std::vector<GemmaLayer> layers_;
  Weights::Storage storage_;
};

class GemmaLoader {
 public:
  GemmaLoader(const format::Checkpoint& checkpoint, const Config& config, GemmaTraits traits)
      : config_(config), traits_(std::move(traits)), tensors_(checkpoint, config, /*norm_offset=*/1) {}

  base::Result<std::shared_ptr<const Model>> load() {
    RAFTER_TRY(check_sizes());
    auto model = std::make_shared<GemmaModel>(traits_);
    GemmaTraits& t = model->traits_;
    RAFTER_TRY(tensors_.load_ends(t.sizes, model->info_, model->embed_tokens_, model->lm_head_));
    RAFTER_ASSIGN(model->final_norm_, tensors_.norm("final_norm", 0, t.sizes.width));
    for (int64_t l = 0; l < t.sizes.layers; ++l) {
      RAFTER_ASSIGN(GemmaLayer layer, load_layer(l));
      model->layers_.push_back(layer);
    }
    RAFTER_TRY(tensors_.finish({}, model->info_));
    model->info_.architecture = t.architecture;
    model->info_.kv_heads = t.kv_heads;
    model->info_.head_dim = t.head_dim;
    model->storage_ = tensors_.weights().take_storage();
    return std::shared_ptr<const Model>(std::move(model));
  }

 private:
  base::Status check_sizes() const {
    RAFTER_TRY(check_head_dim(config_, traits_.head_dim));
    RAFTER_TRY(check_kv_heads(config_, traits_.sizes.heads, traits_.kv_heads));
    if (traits_.ffn_width >= 1 && traits_.ffn_width <= 1 << 22 &&
        static_cast<int64_t>(traits_.windows.size()) == traits_.sizes.layers)
      return {};
    return Error{ErrorCode::invalid_data,
                 fmt::format("impossible sizes: a feed-forward of {}, windows of {} layers",
                             traits_.ffn_width, traits_.windows.size()),
                 config_.where(), "a sliding_window is required"};
  }

  base::Result<GemmaLayer> load_layer(int64_t l) {
    const GemmaTraits& t = traits_;
    const int64_t width = t.sizes.width;
    const int64_t q_width = t.sizes.heads * t.head_dim, kv_width = t.kv_heads * t.head_dim;
    GemmaLayer w;
    RAFTER_ASSIGN(w.attn_norm, tensors_.norm("attn_norm", l, width));
    RAFTER_ASSIGN(w.q_proj, tensors_.linear("q_proj", l, q_width, width));
    RAFTER_ASSIGN(w.k_proj, tensors_.linear("k_proj", l, kv_width, width));
    RAFTER_ASSIGN(w.v_proj, tensors_.linear("v_proj", l, kv_width, width));
    RAFTER_ASSIGN(w.o_proj, tensors_.linear("o_proj", l, width, q_width));
    if (t.qk_norm) {
      RAFTER_ASSIGN(w.q_norm, tensors_.norm("q_norm", l, t.head_dim));
      RAFTER_ASSIGN(w.k_norm, tensors_.norm("k_norm", l, t.head_dim));
    }
    RAFTER_ASSIGN(w.attn_post_norm, tensors_.norm("attn_post_norm", l, width));
    RAFTER_ASSIGN(w.ffn_norm, tensors_.norm("ffn_norm", l, width));
    RAFTER_ASSIGN(w.ffn_gate, tensors_.linear("ffn_gate", l, t.ffn_width, width));
    RAFTER_ASSIGN(w.ffn_up, tensors_.linear("ffn_up", l, t.ffn_width, width));
    RAFTER_ASSIGN(w.ffn_down, tensors_.linear("ffn_down", l, width, t.ffn_width));
    RAFTER_ASSIGN(w.ffn_post_norm, tensors_.norm("ffn_post_norm", l, width));
    w.attention.heads = static_cast<int32_t>(t.sizes.heads);
    w.attention.kv_heads = static_cast<int32_t>(t.kv_heads);
    w.attention.head_dim = static_cast<int32_t>(t.head_dim);
    w.attention.window = t.windows[static_cast<size_t>(l)];
    w.attention.scale = t.attention_scale;
    w.attention.softcap = t.attention_softcap;
    return w;
  }

  const Config& config_;
  GemmaTraits traits_;
  GemmaWeights tensors_;
};

}  // namespace

base::Result<std::shared_ptr<const Model>> load_gemma(const format::Checkpoint& checkpoint,
                                                      const Config& config, GemmaTraits traits) {
  return GemmaLoader(checkpoint, config, std::move(traits)).load();
}

base::Result<float> gemma_attention_scale(const Config& config, const GemmaTraits& traits,
                                          std::optional<double> default_scalar, int64_t largest_layers) {
  if (config.from_gguf()) {
    const bool is_largest = traits.sizes.layers == largest_layers;
    default_scalar =
        static_cast<double>(is_largest ? traits.sizes.width / traits.sizes.heads : traits.head_dim);
  }
  RAFTER_ASSIGN(const double scalar, config.number("query_pre_attn_scalar", default_scalar));
  if (scalar > 0) return static_cast<float>(1 / std::sqrt(scalar));
  return Error{ErrorCode::invalid_data, fmt::format("{} is not positive", scalar),
               config.where() + ": query_pre_attn_scalar", ""};
}

}  // namespace rafter::model

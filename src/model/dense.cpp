#include "model/dense.h"

#include <array>
#include <cmath>

namespace rafter::model {

using base::Error;
using base::ErrorCode;
using plan::AttentionShape;
using plan::Emitter;
using plan::Linear;
using plan::Value;

namespace {

// The tensor map: a role's name in a Hugging Face folder and in a GGUF file. {} is the layer.
struct Name {
  const char* role;
  const char* hugging_face;
  const char* gguf;
};

constexpr std::array kNames = {
    Name{"embed_tokens", "model.embed_tokens", "token_embd"},
    Name{"final_norm", "model.norm", "output_norm"},
    Name{"lm_head", "lm_head", "output"},
    Name{"attn_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    Name{"q_proj", "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    Name{"k_proj", "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    Name{"v_proj", "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    Name{"o_proj", "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    Name{"qkv_proj", "model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv"},
    Name{"q_norm", "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    Name{"k_norm", "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    Name{"ffn_norm", "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    Name{"ffn_gate", "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    Name{"ffn_up", "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    Name{"ffn_gate_up", "model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up"},
    Name{"ffn_down", "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
};

class GatedFeedForward final : public FeedForward {
 public:
  GatedFeedForward(Linear gate, Linear up, Linear down) : gate_(gate), up_(up), down_(down) {}

  Value emit(Emitter& e, Value m) const override {
    const Value gate = e.matmul("ffn_gate", m, gate_);
    const Value up = e.matmul("ffn_up", m, up_);
    return e.matmul("ffn_down", e.swiglu("swiglu", gate, up), down_);
  }

 private:
  Linear gate_, up_, down_;
};

struct LayerWeights {
  const float *attn_norm, *ffn_norm;
  const float *q_norm = nullptr, *k_norm = nullptr;
  Linear q_proj, k_proj, v_proj, o_proj;
  std::unique_ptr<FeedForward> feed_forward;
  AttentionShape attention;
  bool rotates = true;
};

class DenseModel final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }

  std::vector<CacheLayer> cache_layers() const override {
    std::vector<CacheLayer> layers;
    for (const LayerWeights& layer : layers_)
      layers.push_back({layer.attention.kv_heads, layer.attention.head_dim, layer.attention.window});
    return layers;
  }

  void emit(Emitter& e) const override {
    Value x = e.embed("embed_tokens", embed_tokens_.weight);
    const Value angles = e.rope_angles("rope_angles", rope_.pointed(e.context()));
    for (int64_t l = 0; l < config_.layers; ++l) x = layer(e, l, x, angles);
    e.set_layer(-1);
    const Value wanted = e.select_wanted_rows("select_wanted", x);
    const Value z = e.rms_norm("final_norm", wanted, final_norm_, config_.norm_epsilon);
    e.tap("final_norm", z);
    if (e.wants_head()) e.set_logits(e.matmul("lm_head", z, lm_head_));
  }

  Value emit_layer(Emitter& e, int64_t l, Value x) const override {
    return layer(e, l, x, e.rope_angles("rope_angles", rope_.pointed(e.context())));
  }

 private:
  friend class DenseLoader;

  Value layer(Emitter& e, int64_t l, Value x, Value angles) const {
    const LayerWeights& w = layers_[static_cast<size_t>(l)];
    const AttentionShape& shape = w.attention;
    const plan::Rope rope = rope_.pointed(e.context());
    e.set_layer(static_cast<int32_t>(l));

    const Value a = e.rms_norm("attn_norm", x, w.attn_norm, config_.norm_epsilon);
    Value q = e.matmul("q_proj", a, w.q_proj);
    Value k = e.matmul("k_proj", a, w.k_proj);
    const Value v = e.matmul("v_proj", a, w.v_proj);
    if (w.q_norm != nullptr) {
      q = e.rms_norm_per_head("q_norm", q, shape.heads, w.q_norm, config_.norm_epsilon);
      k = e.rms_norm_per_head("k_norm", k, shape.kv_heads, w.k_norm, config_.norm_epsilon);
    }
    if (w.rotates) {
      q = e.rope("q_rope", q, shape.heads, rope, angles);
      k = e.rope("k_rope", k, shape.kv_heads, rope, angles);
    }
    const plan::KeysValues cache = e.append_keys_values("kv_append", k, v, shape, static_cast<int32_t>(l));
    const Value attended = e.attention("attention", q, cache, shape);
    const Value h = e.add("attn_residual", x, e.matmul("o_proj", attended, w.o_proj));

    const Value m = e.rms_norm("ffn_norm", h, w.ffn_norm, config_.norm_epsilon);
    const Value y = e.add("ffn_residual", h, w.feed_forward->emit(e, m));
    e.tap(fmt::format("layer.{}.hidden", l), y);
    return y;
  }

  ModelInfo info_;
  DenseConfig config_{};
  RopeTable rope_;
  Linear embed_tokens_, lm_head_;
  const float* final_norm_ = nullptr;
  std::vector<LayerWeights> layers_;
  Weights::Storage storage_;
};

// Reads the config and takes the weights, in that order.
class DenseLoader {
 public:
  DenseLoader(const format::Checkpoint& checkpoint, const Config& config, DenseTraits traits)
      : checkpoint_(checkpoint), config_(config), traits_(std::move(traits)), weights_(checkpoint) {}

  base::Result<std::shared_ptr<const Model>> load() {
    auto model = std::make_shared<DenseModel>();
    RAFTER_TRY(read_config(model->config_));
    RAFTER_TRY(load_rope(*model));
    RAFTER_TRY(load_ends(*model));
    for (int64_t l = 0; l < model->config_.layers; ++l) {
      RAFTER_ASSIGN(LayerWeights layer, load_layer(model->config_, l));
      model->layers_.push_back(std::move(layer));
    }
    weights_.ignore([&](const std::string& name) {
      return name.find("rotary_emb.inv_freq") != std::string::npos ||
             (model->info_.tied_head && name.rfind(this->name("lm_head") + ".", 0) == 0);
    });
    RAFTER_TRY(weights_.check_all_used());
    fill_info(*model);
    model->storage_ = weights_.take_storage();
    return std::shared_ptr<const Model>(std::move(model));
  }

 private:
  std::string name(std::string_view role, int64_t layer = 0) const {
    for (const Name& entry : kNames) {
      if (role != entry.role) continue;
      const bool gguf = checkpoint_.container() == format::Container::gguf;
      return fmt::format(fmt::runtime(gguf ? entry.gguf : entry.hugging_face), layer);
    }
    RAFTER_CHECK(false, "no tensor role {}", role);
  }

  base::Status read_config(DenseConfig& c) {
    RAFTER_ASSIGN(c.layers, config_.integer("num_hidden_layers"));
    RAFTER_ASSIGN(c.width, config_.integer("hidden_size"));
    RAFTER_ASSIGN(c.ffn_width, config_.integer("intermediate_size"));
    RAFTER_ASSIGN(c.heads, config_.integer("num_attention_heads"));
    RAFTER_ASSIGN(c.kv_heads, config_.integer("num_key_value_heads", c.heads));
    RAFTER_ASSIGN(c.max_positions, config_.integer("max_position_embeddings", 0));
    RAFTER_ASSIGN(const double epsilon, config_.number("rms_norm_eps"));
    c.norm_epsilon = static_cast<float>(epsilon);
    RAFTER_ASSIGN(const std::string activation, config_.string("hidden_act", std::string("silu")));
    if (activation != "silu") {
      return Error{ErrorCode::unsupported,
                   fmt::format("activation \"{}\" is not supported for {}", activation, traits_.architecture),
                   config_.where() + ": hidden_act", "supported: silu"};
    }
    // Bounds that keep every product below far inside 63 bits; the tensors' own shapes decide the rest.
    constexpr int64_t kMaxLayers = 4096, kMaxWidth = 1 << 20, kMaxHeads = 4096, kMaxHeadDim = 512;
    if (c.layers < 1 || c.layers > kMaxLayers || c.width < 1 || c.width > kMaxWidth || c.ffn_width < 1 ||
        c.ffn_width > 4 * kMaxWidth || c.heads < 1 || c.heads > kMaxHeads || c.kv_heads < 1 ||
        c.kv_heads > c.heads || c.heads % c.kv_heads != 0) {
      return Error{
          ErrorCode::invalid_data,
          fmt::format("impossible sizes: {} layers of width {}, feed-forward {}, {} query and {} key heads",
                      c.layers, c.width, c.ffn_width, c.heads, c.kv_heads),
          config_.where(), ""};
    }
    c.head_dim = c.width / c.heads;
    if (traits_.head_dim_key) {
      RAFTER_ASSIGN(c.head_dim, config_.integer("head_dim", c.head_dim));
    }
    if (c.head_dim < 8 || c.head_dim > kMaxHeadDim || c.head_dim % 8 != 0) {
      return Error{ErrorCode::unsupported, fmt::format("a head dimension of {} is not supported", c.head_dim),
                   config_.where(), "supported: multiples of 8 up to 512"};
    }
    return {};
  }

  base::Status load_rope(DenseModel& model) {
    RAFTER_ASSIGN(model.rope_, make_rope(config_, model.config_.head_dim, traits_.default_rope_theta));
    if (config_.from_gguf() && traits_.gguf_adjacent_rope)
      model.rope_.rope.layout = kernels::RopeLayout::adjacent;
    if (config_.from_gguf() && weights_.has("rope_freqs.weight")) {
      // Llama 3's scaling in GGUF: what each base frequency is divided by.
      const auto half = static_cast<int64_t>(model.rope_.frequencies.size());
      RAFTER_ASSIGN(const float* divisors, weights_.vector("rope_freqs.weight", half));
      for (int64_t i = 0; i < half; ++i) model.rope_.frequencies[static_cast<size_t>(i)] /= divisors[i];
    }
    if (config_.from_gguf() && weights_.has("rope_factors_long.weight")) {
      const auto half = static_cast<int64_t>(model.rope_.frequencies.size());
      RAFTER_ASSIGN(const float* longer, weights_.vector("rope_factors_long.weight", half));
      RAFTER_ASSIGN(const float* shorter, weights_.vector("rope_factors_short.weight", half));
      const auto size = static_cast<size_t>(half);
      model.rope_.set_longrope({longer, longer + size}, {shorter, shorter + size});
    }
    return {};
  }

  base::Status load_ends(DenseModel& model) {
    DenseConfig& c = model.config_;
    c.vocabulary = weights_.rows(name("embed_tokens"));
    RAFTER_ASSIGN(const int64_t declared, config_.integer("vocab_size", c.vocabulary));
    if (c.vocabulary == 0 || declared != c.vocabulary) c.vocabulary = declared;  // matrix() names both shapes
    RAFTER_ASSIGN(model.embed_tokens_, weights_.linear(name("embed_tokens"), c.vocabulary, c.width));
    RAFTER_ASSIGN(model.final_norm_, weights_.vector(name("final_norm") + ".weight", c.width));

    const bool has_head = weights_.has(name("lm_head") + ".weight");
    RAFTER_ASSIGN(model.info_.tied_head, config_.boolean("tie_word_embeddings", !has_head));
    if (model.info_.tied_head) {
      model.lm_head_ = model.embed_tokens_;
      return {};
    }
    RAFTER_ASSIGN(model.lm_head_, weights_.linear(name("lm_head"), c.vocabulary, c.width));
    return {};
  }

  base::Result<LayerWeights> load_layer(const DenseConfig& c, int64_t l) {
    const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    LayerWeights w{};
    RAFTER_ASSIGN(w.attn_norm, weights_.vector(name("attn_norm", l) + ".weight", c.width));
    if (traits_.fused_projections) {
      const int64_t rows[] = {q_width, kv_width, kv_width};
      RAFTER_ASSIGN(const std::vector<Linear> parts, weights_.linears(name("qkv_proj", l), rows, c.width));
      w.q_proj = parts[0], w.k_proj = parts[1], w.v_proj = parts[2];
    } else {
      RAFTER_ASSIGN(w.q_proj, weights_.linear(name("q_proj", l), q_width, c.width, traits_.qkv_bias));
      RAFTER_ASSIGN(w.k_proj, weights_.linear(name("k_proj", l), kv_width, c.width, traits_.qkv_bias));
      RAFTER_ASSIGN(w.v_proj, weights_.linear(name("v_proj", l), kv_width, c.width, traits_.qkv_bias));
    }
    RAFTER_ASSIGN(w.o_proj, weights_.linear(name("o_proj", l), c.width, q_width, traits_.o_bias));
    if (traits_.qk_norm) {
      RAFTER_ASSIGN(w.q_norm, weights_.vector(name("q_norm", l) + ".weight", c.head_dim));
      RAFTER_ASSIGN(w.k_norm, weights_.vector(name("k_norm", l) + ".weight", c.head_dim));
    }
    RAFTER_ASSIGN(w.ffn_norm, weights_.vector(name("ffn_norm", l) + ".weight", c.width));
    if (traits_.feed_forward) {
      RAFTER_ASSIGN(w.feed_forward, traits_.feed_forward(weights_, c, l));
    }
    if (w.feed_forward == nullptr) {
      RAFTER_ASSIGN(w.feed_forward, load_gated(c, l));
    }
    w.attention.heads = static_cast<int32_t>(c.heads);
    w.attention.kv_heads = static_cast<int32_t>(c.kv_heads);
    w.attention.head_dim = static_cast<int32_t>(c.head_dim);
    w.attention.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    if (!traits_.rotates.empty()) w.rotates = traits_.rotates[static_cast<size_t>(l)];
    if (!traits_.windows.empty()) w.attention.window = traits_.windows[static_cast<size_t>(l)];
    return w;
  }

  base::Result<std::unique_ptr<FeedForward>> load_gated(const DenseConfig& c, int64_t l) {
    Linear gate, up;
    if (traits_.fused_projections) {
      const int64_t rows[] = {c.ffn_width, c.ffn_width};
      RAFTER_ASSIGN(const std::vector<Linear> parts, weights_.linears(name("ffn_gate_up", l), rows, c.width));
      gate = parts[0], up = parts[1];
    } else {
      RAFTER_ASSIGN(gate, weights_.linear(name("ffn_gate", l), c.ffn_width, c.width, traits_.mlp_bias));
      RAFTER_ASSIGN(up, weights_.linear(name("ffn_up", l), c.ffn_width, c.width, traits_.mlp_bias));
    }
    RAFTER_ASSIGN(const Linear down,
                  weights_.linear(name("ffn_down", l), c.width, c.ffn_width, traits_.mlp_bias));
    return std::unique_ptr<FeedForward>(std::make_unique<GatedFeedForward>(gate, up, down));
  }

  void fill_info(DenseModel& model) const {
    const DenseConfig& c = model.config_;
    ModelInfo& info = model.info_;
    info.architecture = traits_.architecture;
    info.model_type = config_.model_type();
    info.layers = c.layers;
    info.width = c.width;
    info.vocabulary = c.vocabulary;
    info.heads = c.heads;
    info.kv_heads = c.kv_heads;
    info.head_dim = c.head_dim;
    info.max_positions = c.max_positions;
    info.parameters = weights_.parameters();
    info.unused_bytes = weights_.ignored_bytes();
  }

  const format::Checkpoint& checkpoint_;
  const Config& config_;
  DenseTraits traits_;
  Weights weights_;
};

}  // namespace

base::Result<std::shared_ptr<const Model>> load_dense(const format::Checkpoint& checkpoint,
                                                      const Config& config, DenseTraits traits) {
  return DenseLoader(checkpoint, config, std::move(traits)).load();
}

base::Result<std::vector<int32_t>> sliding_windows(const Config& config,
                                                   const std::function<bool(int64_t)>& without_types) {
  std::vector<int32_t> windows;
  RAFTER_ASSIGN(const int64_t window, config.integer("sliding_window", 0));
  RAFTER_ASSIGN(const int64_t layers, config.integer("num_hidden_layers"));
  RAFTER_ASSIGN(const std::vector<std::string> types, config.strings("layer_types"));
  if (window == 0 || layers > 4096) return windows;
  if (!types.empty() && static_cast<int64_t>(types.size()) != layers) {
    return Error{ErrorCode::invalid_data, fmt::format("{} entries for {} layers", types.size(), layers),
                 config.where() + ": layer_types", ""};
  }
  for (int64_t l = 0; l < layers; ++l) {
    const bool sliding =
        types.empty() ? without_types(l) : types[static_cast<size_t>(l)] == "sliding_attention";
    windows.push_back(sliding ? static_cast<int32_t>(window) : 0);
  }
  return windows;
}

base::Result<std::vector<int32_t>> qwen_windows(const Config& config) {
  RAFTER_ASSIGN(const bool slides, config.boolean("use_sliding_window", false));
  RAFTER_ASSIGN(const int64_t first_sliding, config.integer("max_window_layers", 28));
  if (!slides) return std::vector<int32_t>();
  return sliding_windows(config, [&](int64_t l) { return l >= first_sliding; });
}

}  // namespace rafter::model

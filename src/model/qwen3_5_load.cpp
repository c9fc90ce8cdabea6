// Reads Qwen3.5 from a checkpoint: published, converted to MLX, or GGUF.
#include <array>
#include <cmath>

#include "base/check.h"
#include "model/families.h"
#include "model/qwen3_5.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;
using kernels::RecurrentShape;

namespace {

// The tensor map. {0} is the layer, {1} what comes before "layers" in a folder: "model.", or a wrapper's.
struct Name {
  const char* role;
  const char* hugging_face;
  const char* gguf;
};

constexpr std::array kNames = {
    Name{"embed_tokens", "{1}embed_tokens", "token_embd"},
    Name{"final_norm", "{1}norm", "output_norm"},
    Name{"attn_norm", "{1}layers.{0}.input_layernorm", "blk.{0}.attn_norm"},
    Name{"q_proj", "{1}layers.{0}.self_attn.q_proj", "blk.{0}.attn_q"},
    Name{"k_proj", "{1}layers.{0}.self_attn.k_proj", "blk.{0}.attn_k"},
    Name{"v_proj", "{1}layers.{0}.self_attn.v_proj", "blk.{0}.attn_v"},
    Name{"o_proj", "{1}layers.{0}.self_attn.o_proj", "blk.{0}.attn_output"},
    Name{"q_norm", "{1}layers.{0}.self_attn.q_norm", "blk.{0}.attn_q_norm"},
    Name{"k_norm", "{1}layers.{0}.self_attn.k_norm", "blk.{0}.attn_k_norm"},
    Name{"delta_qkv", "{1}layers.{0}.linear_attn.in_proj_qkv", "blk.{0}.attn_qkv"},
    Name{"delta_z", "{1}layers.{0}.linear_attn.in_proj_z", "blk.{0}.attn_gate"},
    Name{"delta_beta", "{1}layers.{0}.linear_attn.in_proj_b", "blk.{0}.ssm_beta"},
    Name{"delta_alpha", "{1}layers.{0}.linear_attn.in_proj_a", "blk.{0}.ssm_alpha"},
    Name{"delta_conv", "{1}layers.{0}.linear_attn.conv1d.weight", "blk.{0}.ssm_conv1d.weight"},
    Name{"delta_rate", "{1}layers.{0}.linear_attn.A_log", "blk.{0}.ssm_a"},
    Name{"delta_bias", "{1}layers.{0}.linear_attn.dt_bias", "blk.{0}.ssm_dt.bias"},
    Name{"delta_norm", "{1}layers.{0}.linear_attn.norm", "blk.{0}.ssm_norm"},
    Name{"delta_out", "{1}layers.{0}.linear_attn.out_proj", "blk.{0}.ssm_out"},
    Name{"ffn_norm", "{1}layers.{0}.post_attention_layernorm", "blk.{0}.post_attention_norm"},
    Name{"ffn_gate", "{1}layers.{0}.mlp.gate_proj", "blk.{0}.ffn_gate"},
    Name{"ffn_up", "{1}layers.{0}.mlp.up_proj", "blk.{0}.ffn_up"},
    Name{"ffn_down", "{1}layers.{0}.mlp.down_proj", "blk.{0}.ffn_down"},
    Name{"router", "{1}layers.{0}.mlp.gate", "blk.{0}.ffn_gate_inp"},
    Name{"shared_router", "{1}layers.{0}.mlp.shared_expert_gate", "blk.{0}.ffn_gate_inp_shexp"},
    Name{"shared_gate", "{1}layers.{0}.mlp.shared_expert.gate_proj", "blk.{0}.ffn_gate_shexp"},
    Name{"shared_up", "{1}layers.{0}.mlp.shared_expert.up_proj", "blk.{0}.ffn_up_shexp"},
    Name{"shared_down", "{1}layers.{0}.mlp.shared_expert.down_proj", "blk.{0}.ffn_down_shexp"},
    Name{"draft_join", "{1}fc", "blk.{0}.nextn.eh_proj"},
    Name{"draft_embedding_norm", "{1}pre_fc_norm_embedding", "blk.{0}.nextn.enorm"},
    Name{"draft_hidden_norm", "{1}pre_fc_norm_hidden", "blk.{0}.nextn.hnorm"},
    Name{"draft_norm", "{1}norm", "blk.{0}.nextn.shared_head_norm"},
};

}  // namespace

class HybridLoader {
 public:
  HybridLoader(const format::Checkpoint& checkpoint, const Config& config)
      : checkpoint_(checkpoint), config_(config), weights_(checkpoint) {}

  base::Result<std::shared_ptr<const Model>> load() {
    auto model = std::make_shared<HybridModel>();
    HybridConfig& c = model->config_;
    RAFTER_TRY(read_sizes(c.dense));
    RAFTER_TRY(read_pattern(c));
    RAFTER_TRY(read_delta(c));
    RAFTER_TRY(read_mixture(c));
    RAFTER_TRY(load_rope(*model));
    find_prefix();
    find_norm_offset(c);
    RAFTER_TRY(load_ends(*model));
    int32_t attention_layers = 0, delta_layers = 0;
    for (int64_t l = 0; l < c.dense.layers; ++l) {
      HybridLayer layer;
      const bool attends = c.attends[static_cast<size_t>(l)];
      layer.cache_layer = attends ? attention_layers++ : delta_layers++;
      RAFTER_ASSIGN(layer.attn_norm, norm("attn_norm", l, c.dense.width));
      RAFTER_ASSIGN(layer.ffn_norm, norm("ffn_norm", l, c.dense.width));
      RAFTER_TRY(attends ? load_attention(c, l, layer.attention) : load_delta(c, l, layer.delta));
      RAFTER_TRY(load_feed_forward(c, l, layer.ffn));
      model->layers_.push_back(std::move(layer));
    }
    weights_.ignore([&](const std::string& name) { return is_unused(*model, name); });
    RAFTER_TRY(weights_.check_all_used());
    fill_info(*model);
    load_draft_head(*model);
    model->storage_ = weights_.take_storage();
    return std::shared_ptr<const Model>(std::move(model));
  }

 private:
  bool is_gguf() const { return checkpoint_.container() == format::Container::gguf; }

  std::string name(std::string_view role, int64_t layer = 0) const {
    for (const Name& entry : kNames) {
      if (role != entry.role) continue;
      return fmt::format(fmt::runtime(is_gguf() ? entry.gguf : entry.hugging_face), layer, prefix_);
    }
    RAFTER_CHECK(false, "no tensor role {}", role);
  }

  Error impossible(const std::string& what) const {
    return Error{ErrorCode::invalid_data, "impossible sizes: " + what, config_.where(), ""};
  }

  base::Status read_sizes(DenseConfig& c) {
    RAFTER_ASSIGN(c.layers, config_.integer("num_hidden_layers"));
    RAFTER_ASSIGN(c.width, config_.integer("hidden_size"));
    RAFTER_ASSIGN(c.ffn_width, config_.integer("intermediate_size", 1));  // the mixture's configs have none
    RAFTER_ASSIGN(c.heads, config_.integer("num_attention_heads"));
    RAFTER_ASSIGN(c.kv_heads, config_.integer("num_key_value_heads"));
    RAFTER_ASSIGN(c.head_dim, config_.integer("head_dim"));
    RAFTER_ASSIGN(c.max_positions, config_.integer("max_position_embeddings", 0));
    RAFTER_ASSIGN(const double epsilon, config_.number("rms_norm_eps"));
    c.norm_epsilon = static_cast<float>(epsilon);
    RAFTER_ASSIGN(const std::string activation, config_.string("hidden_act", std::string("silu")));
    RAFTER_ASSIGN(const bool gated, config_.boolean("attn_output_gate", true));
    if (activation != "silu" || !gated) {
      return Error{ErrorCode::unsupported,
                   gated ? fmt::format("activation \"{}\" is not supported for qwen3_5", activation)
                         : "attention without its output gate is not supported for qwen3_5",
                   config_.where() + (gated ? ": hidden_act" : ": attn_output_gate"), ""};
    }
    constexpr int64_t kMaxLayers = 4096, kMaxWidth = 1 << 20, kMaxHeads = 4096;
    if (c.layers < 1 || c.layers > kMaxLayers || c.width < 1 || c.width > kMaxWidth || c.ffn_width < 1 ||
        c.ffn_width > 4 * kMaxWidth || c.heads < 1 || c.heads > kMaxHeads || c.kv_heads < 1 ||
        c.kv_heads > c.heads || c.heads % c.kv_heads != 0) {
      return impossible(fmt::format("{} layers of width {}, feed-forward {}, {} query and {} key heads",
                                    c.layers, c.width, c.ffn_width, c.heads, c.kv_heads));
    }
    if (c.head_dim < 8 || c.head_dim > 512 || c.head_dim % 8 != 0) {
      return Error{ErrorCode::unsupported, fmt::format("a head dimension of {} is not supported", c.head_dim),
                   config_.where(), "supported: multiples of 8 up to 512"};
    }
    return {};
  }

  // Which layers attend: the list if there is one, else every interval-th.
  base::Status read_pattern(HybridConfig& c) {
    RAFTER_ASSIGN(const int64_t interval, config_.integer("full_attention_interval", 4));
    RAFTER_ASSIGN(const std::vector<std::string> types, config_.strings("layer_types"));
    RAFTER_ASSIGN(c.attention_bias, config_.boolean("attention_bias", false));
    if (interval < 1 || (!types.empty() && static_cast<int64_t>(types.size()) != c.dense.layers)) {
      return impossible(fmt::format("{} layer types for {} layers, attention every {}", types.size(),
                                    c.dense.layers, interval));
    }
    for (int64_t l = 0; l < c.dense.layers; ++l) {
      const std::string& type = types.empty() ? std::string() : types[static_cast<size_t>(l)];
      if (!types.empty() && type != "full_attention" && type != "linear_attention") {
        return Error{ErrorCode::unsupported, fmt::format("a layer of type \"{}\" is not supported", type),
                     config_.where() + ": layer_types", "supported: full_attention, linear_attention"};
      }
      c.attends.push_back(types.empty() ? (l + 1) % interval == 0 : type == "full_attention");
    }
    return {};
  }

  base::Status read_delta(HybridConfig& c) {
    RAFTER_ASSIGN(const int64_t key_heads, config_.integer("linear_num_key_heads"));
    RAFTER_ASSIGN(const int64_t value_heads, config_.integer("linear_num_value_heads"));
    RAFTER_ASSIGN(const int64_t key_dim, config_.integer("linear_key_head_dim"));
    RAFTER_ASSIGN(const int64_t value_dim, config_.integer("linear_value_head_dim"));
    RAFTER_ASSIGN(const int64_t taps, config_.integer("linear_conv_kernel_dim"));
    if (key_heads < 1 || key_heads > 1024 || value_heads < 1 || value_heads > 1024 ||
        value_heads % key_heads != 0 || key_dim < 1 || key_dim > 1024 || value_dim < 1 || value_dim > 1024 ||
        taps < 2 || taps > 64) {
      return impossible(fmt::format("delta net of {} key heads of {} and {} value heads of {}, {} taps",
                                    key_heads, key_dim, value_heads, value_dim, taps));
    }
    c.delta = {static_cast<int32_t>(key_heads), static_cast<int32_t>(value_heads),
               static_cast<int32_t>(key_dim),   static_cast<int32_t>(value_dim),
               static_cast<int32_t>(taps),      is_gguf()};
    return {};
  }

  base::Status read_mixture(HybridConfig& c) {
    RAFTER_ASSIGN(c.experts, config_.integer("num_experts", 0));
    if (c.experts == 0) return {};
    RAFTER_ASSIGN(c.chosen, config_.integer("num_experts_per_tok"));
    RAFTER_ASSIGN(c.expert_width, config_.integer("moe_intermediate_size"));
    RAFTER_ASSIGN(c.shared_width, config_.integer("shared_expert_intermediate_size"));
    RAFTER_ASSIGN(c.normalize_routes, config_.boolean("norm_topk_prob", true));
    if (c.experts > kernels::RouterArgs::kMostExperts || c.chosen < 1 ||
        c.chosen > std::min<int64_t>(c.experts, kernels::RouterArgs::kMostChosen) || c.expert_width < 1 ||
        c.expert_width > 1 << 22 || c.shared_width < 1 || c.shared_width > 1 << 22) {
      return impossible(fmt::format("{} of {} experts of width {}, a shared one of width {}", c.chosen,
                                    c.experts, c.expert_width, c.shared_width));
    }
    return {};
  }

  // A quarter of each head turns unless the config says otherwise.
  base::Status load_rope(HybridModel& model) {
    RAFTER_ASSIGN(const Config parameters, config_.object("rope_parameters"));
    const int64_t head_dim = model.config_.dense.head_dim;
    const bool says = config_.has("partial_rotary_factor") || config_.has("rotary_dims") ||
                      parameters.has("partial_rotary_factor");
    RAFTER_ASSIGN(model.rope_, make_rope(config_, says ? head_dim : head_dim / 4, std::nullopt));
    model.rope_.rope.head_dim = static_cast<int32_t>(head_dim);
    return {};
  }

  void find_prefix() {
    for (const char* candidate : {"model.", "model.language_model.", "language_model.model."}) {
      prefix_ = candidate;
      if (weights_.has(prefix_ + "embed_tokens.weight")) break;
    }
    head_ = prefix_ == "language_model.model." ? "language_model.lm_head" : "lm_head";
    if (is_gguf()) head_ = "output";
  }

  // Raw checkpoints store norms less 1 and the convolution as [C, 1, taps]; converters to MLX fold the 1 in
  // and write [C, taps, 1]. GGUF files have it folded in.
  void find_norm_offset(const HybridConfig& c) {
    const auto first = std::find(c.attends.begin(), c.attends.end(), false) - c.attends.begin();
    const auto found = checkpoint_.tensors().find(name("delta_conv", first));
    const bool is_raw = !is_gguf() && found != checkpoint_.tensors().end() &&
                        found->second.shape.size() == 3 && found->second.shape[2] != 1;
    norm_offset_ = is_raw ? 1.0f : 0.0f;
  }

  base::Result<const float*> norm(std::string_view role, int64_t layer, int64_t width) {
    return weights_.vector(name(role, layer) + ".weight", width,
                           [offset = norm_offset_](float stored) { return stored + offset; });
  }

  base::Status load_ends(HybridModel& model) {
    DenseConfig& c = model.config_.dense;
    c.vocabulary = weights_.rows(name("embed_tokens"));
    RAFTER_ASSIGN(const int64_t declared, config_.integer("vocab_size", c.vocabulary));
    if (c.vocabulary == 0 || declared != c.vocabulary) c.vocabulary = declared;  // matrix() names both shapes
    RAFTER_ASSIGN(model.embed_tokens_, weights_.linear(name("embed_tokens"), c.vocabulary, c.width));
    RAFTER_ASSIGN(model.final_norm_, norm("final_norm", 0, c.width));
    RAFTER_ASSIGN(model.info_.tied_head,
                  config_.boolean("tie_word_embeddings", !weights_.has(head_ + ".weight")));
    model.lm_head_ = model.embed_tokens_;
    if (!model.info_.tied_head) {
      RAFTER_ASSIGN(model.lm_head_, weights_.linear(head_, c.vocabulary, c.width));
    }
    return {};
  }

  base::Status load_attention(const HybridConfig& config, int64_t l, AttentionWeights& w) {
    const DenseConfig& c = config.dense;
    const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    const Bias bias = config.attention_bias ? Bias::required : Bias::none;
    RAFTER_ASSIGN(w.q_proj, weights_.linear(name("q_proj", l), 2 * q_width, c.width, bias));
    RAFTER_ASSIGN(w.k_proj, weights_.linear(name("k_proj", l), kv_width, c.width, bias));
    RAFTER_ASSIGN(w.v_proj, weights_.linear(name("v_proj", l), kv_width, c.width, bias));
    RAFTER_ASSIGN(w.o_proj, weights_.linear(name("o_proj", l), c.width, q_width, bias));
    RAFTER_ASSIGN(w.q_norm, norm("q_norm", l, c.head_dim));
    RAFTER_ASSIGN(w.k_norm, norm("k_norm", l, c.head_dim));
    return {};
  }

  base::Status load_delta(const HybridConfig& config, int64_t l, DeltaWeights& w) {
    const RecurrentShape& shape = config.delta;
    const int64_t width = config.dense.width;
    RAFTER_ASSIGN(w.qkv, weights_.linear(name("delta_qkv", l), shape.channels(), width));
    RAFTER_ASSIGN(w.z, weights_.linear(name("delta_z", l), shape.value_width(), width));
    RAFTER_ASSIGN(w.beta, weights_.linear(name("delta_beta", l), shape.value_heads, width));
    RAFTER_ASSIGN(w.alpha, weights_.linear(name("delta_alpha", l), shape.value_heads, width));
    RAFTER_ASSIGN(w.out, weights_.linear(name("delta_out", l), width, shape.value_width()));
    RAFTER_ASSIGN(w.convolution, weights_.convolution(name("delta_conv", l), shape.channels(), shape.taps));
    RAFTER_ASSIGN(w.rate, weights_.vector(name("delta_rate", l), shape.value_heads, [this](float stored) {
      return is_gguf() ? stored
                       : static_cast<float>(-std::exp(double{stored}));  // GGUF: −exp(A_log) as it is
    }));
    RAFTER_ASSIGN(w.bias, weights_.vector(name("delta_bias", l), shape.value_heads));
    RAFTER_ASSIGN(w.norm, weights_.vector(name("delta_norm", l) + ".weight", shape.value_dim));
    return {};
  }

  base::Status load_feed_forward(const HybridConfig& config, int64_t l, FeedForwardWeights& w) {
    const int64_t width = config.dense.width;
    const bool mixes = config.experts > 0;
    const int64_t hidden = mixes ? config.shared_width : config.dense.ffn_width;
    RAFTER_ASSIGN(w.gate, weights_.linear(name(mixes ? "shared_gate" : "ffn_gate", l), hidden, width));
    RAFTER_ASSIGN(w.up, weights_.linear(name(mixes ? "shared_up" : "ffn_up", l), hidden, width));
    RAFTER_ASSIGN(w.down, weights_.linear(name(mixes ? "shared_down" : "ffn_down", l), width, hidden));
    if (!mixes) return {};
    RAFTER_ASSIGN(w.router, weights_.linear(name("router", l), config.experts, width));
    RAFTER_ASSIGN(w.shared_router, weights_.linear(name("shared_router", l), 1, width));
    RAFTER_ASSIGN(w.experts, weights_.experts(expert_names(l), config.experts, config.expert_width, width));
    return {};
  }

  ExpertNames expert_names(int64_t l) const {
    if (is_gguf()) {
      const std::string at = fmt::format("blk.{}.", l);
      return {at + "ffn_gate_exps", at + "ffn_up_exps", at + "ffn_down_exps", "", "", ""};
    }
    const std::string at = fmt::format("{}layers.{}.mlp.", prefix_, l);
    return {at + "switch_mlp.gate_proj", at + "switch_mlp.up_proj", at + "switch_mlp.down_proj",
            at + "experts.gate_up_proj", at + "experts.down_proj",  at + "experts"};
  }

  // Other parts of the checkpoint: the head that predicts several tokens, what sees images, a tied head's
  // copy.
  bool is_unused(const HybridModel& model, const std::string& name) const {
    const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (is_gguf())
      return holds(fmt::format("blk.{}.", model.config_.dense.layers).c_str()) || holds(".nextn.");
    return holds("mtp.") || holds("vision_tower") || holds("visual.") ||
           (model.info_.tied_head && name.rfind(head_ + ".", 0) == 0);
  }

  // A head that cannot be run is no reason to refuse the model: the status says what is wrong with it.
  void load_draft_head(HybridModel& model) const {
    HybridLoader own(checkpoint_, config_);
    own.norm_offset_ = norm_offset_;
    for (const char* candidate : {"mtp.", "model.mtp.", "language_model.mtp.", "model.language_model.mtp."}) {
      own.prefix_ = candidate;
      if (own.weights_.has(own.prefix_ + "fc.weight")) break;
    }
    const auto cache_layer = static_cast<int32_t>(model.cache_layers().size());
    model.draft_status_ = own.read_draft_head(model.config_, cache_layer, model.draft_);
    if (!model.draft_status_.ok()) model.draft_.reset();
    model.draft_storage_ = own.weights_.take_storage();
  }

  base::Status read_draft_head(const HybridConfig& config, int32_t cache_layer,
                               std::optional<DraftHead>& head) {
    const int64_t width = config.dense.width, l = is_gguf() ? config.dense.layers : 0;
    const std::string join = name("draft_join", l);
    if (!weights_.has(join + ".weight")) {
      return Error{ErrorCode::not_found, "the checkpoint has no multi-token-prediction head",
                   checkpoint_.path() + ": " + join, ""};
    }
    DraftHead& w = head.emplace();
    RAFTER_ASSIGN(w.join, weights_.linear(join, width, 2 * width));
    if (width % w.join.weight.format.block_columns() != 0) {
      return Error{ErrorCode::unsupported, "blocks across the two halves of a row are not supported",
                   checkpoint_.path() + ": " + join, ""};
    }
    w.join.weight.rows = 2 * width;
    w.join.weight.columns = width;
    RAFTER_ASSIGN(w.embedding_norm, norm("draft_embedding_norm", l, width));
    RAFTER_ASSIGN(w.hidden_norm, norm("draft_hidden_norm", l, width));
    RAFTER_ASSIGN(w.final_norm, norm("draft_norm", l, width));
    RAFTER_ASSIGN(w.layer.attn_norm, norm("attn_norm", l, width));
    RAFTER_ASSIGN(w.layer.ffn_norm, norm("ffn_norm", l, width));
    RAFTER_TRY(load_attention(config, l, w.layer.attention));
    RAFTER_TRY(load_feed_forward(config, l, w.layer.ffn));
    w.layer.cache_layer = cache_layer;
    const std::string own = is_gguf() ? fmt::format("blk.{}.", l) : prefix_;
    weights_.ignore([&](const std::string& tensor) { return tensor.rfind(own, 0) != 0; });
    return weights_.check_all_used();
  }

  void fill_info(HybridModel& model) const {
    const DenseConfig& c = model.config_.dense;
    ModelInfo& info = model.info_;
    info.architecture = model.config_.experts > 0 ? "qwen3_5_moe" : "qwen3_5";
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
  Weights weights_;
  std::string prefix_, head_;
  float norm_offset_ = 0;
};

base::Result<std::shared_ptr<const Model>> load_qwen3_5(const format::Checkpoint& checkpoint,
                                                        const Config& config) {
  return HybridLoader(checkpoint, config).load();
}

}  // namespace rafter::model

#include "model/gemma_tensors.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace rafter::model {

using base::Error;
using base::ErrorCode;

namespace {

// The tensor map. {0} is the layer, {1} what comes before "layers" in a folder: "model.", or a wrapper's.
struct Name {
  const char* role;
  const char* hugging_face;
  const char* gguf;
};

constexpr std::array kNames = {
    Name{"embed_tokens", "{1}embed_tokens", "token_embd"},
    Name{"embed_per_layer", "{1}embed_tokens_per_layer", "per_layer_token_embd"},
    Name{"per_layer_projection", "{1}per_layer_model_projection", "per_layer_model_proj"},
    Name{"per_layer_norm", "{1}per_layer_projection_norm", "per_layer_proj_norm"},
    Name{"final_norm", "{1}norm", "output_norm"},
    Name{"attn_norm", "{1}layers.{0}.input_layernorm", "blk.{0}.attn_norm"},
    Name{"q_proj", "{1}layers.{0}.self_attn.q_proj", "blk.{0}.attn_q"},
    Name{"k_proj", "{1}layers.{0}.self_attn.k_proj", "blk.{0}.attn_k"},
    Name{"v_proj", "{1}layers.{0}.self_attn.v_proj", "blk.{0}.attn_v"},
    Name{"o_proj", "{1}layers.{0}.self_attn.o_proj", "blk.{0}.attn_output"},
    Name{"q_norm", "{1}layers.{0}.self_attn.q_norm", "blk.{0}.attn_q_norm"},
    Name{"k_norm", "{1}layers.{0}.self_attn.k_norm", "blk.{0}.attn_k_norm"},
    Name{"attn_post_norm", "{1}layers.{0}.post_attention_layernorm", "blk.{0}.post_attention_norm"},
    Name{"ffn_norm", "{1}layers.{0}.pre_feedforward_layernorm", "blk.{0}.ffn_norm"},
    Name{"ffn_gate", "{1}layers.{0}.mlp.gate_proj", "blk.{0}.ffn_gate"},
    Name{"ffn_up", "{1}layers.{0}.mlp.up_proj", "blk.{0}.ffn_up"},
    Name{"ffn_down", "{1}layers.{0}.mlp.down_proj", "blk.{0}.ffn_down"},
    Name{"ffn_post_norm", "{1}layers.{0}.post_feedforward_layernorm", "blk.{0}.post_ffw_norm"},
    Name{"router", "{1}layers.{0}.router.proj", "blk.{0}.ffn_gate_inp"},
    Name{"router_norm", "{1}layers.{0}.router.scale", "blk.{0}.ffn_gate_inp.scale"},
    Name{"expert_scale", "{1}layers.{0}.router.per_expert_scale", "blk.{0}.ffn_down_exps.scale"},
    Name{"dense_post_norm", "{1}layers.{0}.post_feedforward_layernorm_1", "blk.{0}.post_ffw_norm_1"},
    Name{"experts_norm", "{1}layers.{0}.pre_feedforward_layernorm_2", "blk.{0}.pre_ffw_norm_2"},
    Name{"experts_post_norm", "{1}layers.{0}.post_feedforward_layernorm_2", "blk.{0}.post_ffw_norm_2"},
    Name{"layer_input_gate", "{1}layers.{0}.per_layer_input_gate", "blk.{0}.inp_gate"},
    Name{"layer_input_proj", "{1}layers.{0}.per_layer_projection", "blk.{0}.proj"},
    Name{"layer_input_norm", "{1}layers.{0}.post_per_layer_input_norm", "blk.{0}.post_norm"},
    Name{"layer_scale", "{1}layers.{0}.layer_scalar", "blk.{0}.layer_output_scale.weight"},
};

// Parts of a checkpoint that also sees and hears.
constexpr const char* kOtherParts[] = {"vision_tower.", "audio_tower.",           "embed_vision.",
                                       "embed_audio.",  "multi_modal_projector.", "vision_embedder."};

}  // namespace

base::Status read_gemma_sizes(const Config& config, const GemmaDefaults& defaults, GemmaSizes& sizes) {
  RAFTER_ASSIGN(sizes.layers, config.integer("num_hidden_layers"));
  RAFTER_ASSIGN(sizes.width, config.integer("hidden_size"));
  RAFTER_ASSIGN(sizes.heads, config.integer("num_attention_heads", defaults.heads));
  RAFTER_ASSIGN(sizes.max_positions, config.integer("max_position_embeddings", defaults.max_positions));
  RAFTER_ASSIGN(const double epsilon, config.number("rms_norm_eps", defaults.norm_epsilon));
  RAFTER_ASSIGN(const double cap, config.number("final_logit_softcapping", 0.0));
  sizes.norm_epsilon = static_cast<float>(epsilon);
  sizes.final_softcap = static_cast<float>(cap);
  constexpr int64_t kMaxLayers = 4096, kMaxWidth = 1 << 20, kMaxHeads = 4096;
  if (sizes.layers < 1 || sizes.layers > kMaxLayers || sizes.width < 1 || sizes.width > kMaxWidth ||
      sizes.heads < 1 || sizes.heads > kMaxHeads || cap < 0) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("impossible sizes: {} layers of width {}, {} query heads, logits capped at {}",
                             sizes.layers, sizes.width, sizes.heads, cap),
                 config.where(), ""};
  }
  RAFTER_ASSIGN(const std::string older, config.string("hidden_act", std::string("gelu_pytorch_tanh")));
  RAFTER_ASSIGN(const std::string activation, config.string("hidden_activation", older));
  if (activation != "gelu_pytorch_tanh") {
    return Error{ErrorCode::unsupported,
                 fmt::format("activation \"{}\" is not supported for Gemma", activation),
                 config.where() + ": hidden_activation", "supported: gelu_pytorch_tanh"};
  }
  // "vision" concerns images only; true and "all" make an encoder of it.
  const auto named = config.string("use_bidirectional_attention", std::string());
  const auto flag = config.boolean("use_bidirectional_attention", false);
  if (!(named.ok() && *named != "all") && !(flag.ok() && !*flag)) {
    return Error{ErrorCode::unsupported, "attention to both sides is not supported",
                 config.where() + ": use_bidirectional_attention", "supported: models that generate"};
  }
  return {};
}

base::Status check_head_dim(const Config& config, int64_t head_dim) {
  if (head_dim >= 8 && head_dim <= 512 && head_dim % 8 == 0) return {};
  return Error{ErrorCode::unsupported, fmt::format("a head dimension of {} is not supported", head_dim),
               config.where(), "supported: multiples of 8 up to 512"};
}

base::Status check_kv_heads(const Config& config, int64_t heads, int64_t kv_heads) {
  if (kv_heads >= 1 && heads % kv_heads == 0) return {};
  return Error{ErrorCode::invalid_data,
               fmt::format("impossible sizes: {} query heads over {} key heads", heads, kv_heads),
               config.where(), ""};
}

GemmaWeights::GemmaWeights(const format::Checkpoint& checkpoint, const Config& config, float norm_offset)
    : config_(config), weights_(checkpoint), norm_offset_(config.from_gguf() ? 0 : norm_offset) {
  for (const char* candidate : {"model.", "model.language_model.", "language_model.model."}) {
    prefix_ = candidate;
    if (weights_.has(prefix_ + "embed_tokens.weight")) break;
  }
  head_ = prefix_ == "language_model.model." ? "language_model.lm_head" : "lm_head";
  if (config.from_gguf()) head_ = "output";
}

std::string GemmaWeights::name(std::string_view role, int64_t layer) const {
  for (const Name& entry : kNames) {
    if (role != entry.role) continue;
    const char* pattern = config_.from_gguf() ? entry.gguf : entry.hugging_face;
    return fmt::format(fmt::runtime(pattern), layer, prefix_);
  }
  RAFTER_CHECK(false, "no tensor role {}", role);
}

bool GemmaWeights::has(std::string_view role, int64_t layer) const {
  return weights_.has(name(role, layer) + ".weight") || weights_.has(name(role, layer));
}

base::Result<plan::Linear> GemmaWeights::linear(std::string_view role, int64_t layer, int64_t rows,
                                                int64_t columns) {
  return weights_.linear(name(role, layer), rows, columns);
}

base::Result<const float*> GemmaWeights::norm(std::string_view role, int64_t layer, int64_t width) {
  return weights_.vector(name(role, layer) + ".weight", width,
                         [offset = norm_offset_](float stored) { return stored + offset; });
}

base::Status GemmaWeights::load_ends(GemmaSizes& sizes, ModelInfo& info, plan::Linear& embed_tokens,
                                     plan::Linear& lm_head) {
  const int64_t rows = weights_.rows(name("embed_tokens"));
  RAFTER_ASSIGN(sizes.vocabulary, config_.integer("vocab_size", rows));
  RAFTER_ASSIGN(embed_tokens, linear("embed_tokens", 0, sizes.vocabulary, sizes.width));
  RAFTER_ASSIGN(info.tied_head, config_.boolean("tie_word_embeddings", !weights_.has(head_ + ".weight")));
  lm_head = embed_tokens;
  if (!info.tied_head) {
    RAFTER_ASSIGN(lm_head, weights_.linear(head_, sizes.vocabulary, sizes.width));
  }
  info.layers = sizes.layers;
  info.width = sizes.width;
  info.vocabulary = sizes.vocabulary;
  info.heads = sizes.heads;
  info.max_positions = sizes.max_positions;
  info.model_type = config_.model_type();
  return {};
}

base::Status GemmaWeights::finish(const std::function<bool(const std::string&)>& is_unused, ModelInfo& info) {
  weights_.ignore([&](const std::string& tensor) {
    const auto is_in = [&](const char* part) { return tensor.find(part) != std::string::npos; };
    return std::any_of(std::begin(kOtherParts), std::end(kOtherParts), is_in) || is_in("rotary_emb.") ||
           (info.tied_head && tensor.rfind(head_ + ".", 0) == 0) || (is_unused && is_unused(tensor));
  });
  RAFTER_TRY(weights_.check_all_used());
  info.parameters = weights_.parameters();
  info.unused_bytes = weights_.ignored_bytes();
  return {};
}

}  // namespace rafter::model

// Gemma 4's tensors in every form.
#include "lab/synth_tensors.h"

namespace rafter::lab {
namespace {

using tensor::DType;
using tensor::NumberFormat;

// Lists one layer after the other.
class Gemma4Tensors {
 public:
  Gemma4Tensors(const SynthShape& shape, SynthTensorList& list)
      : shape_(shape), parts_(*shape.gemma4), list_(list) {}

  void run() {
    const NumberFormat heads = list_.format().heads;
    list_.matrix({prefix() + "embed_tokens", "token_embd"}, shape_.vocabulary, shape_.width, heads);
    if (parts_.layer_input > 0) list_layer_inputs();
    for (int64_t l = 0; l < shape_.layers; ++l) {
      at_ = fmt::format("{}layers.{}.", prefix(), l);
      block_ = fmt::format("blk.{}.", l);
      list_attention(l);
      list_feed_forward(l);
    }
    list_.vector({prefix() + "norm", "output_norm"}, shape_.width);
    if (list_.form() == SynthForm::gguf)
      list_.vector({"", "rope_freqs"}, parts_.full_head_dim / 2, SynthContent::divisors);
  }

 private:
  std::string prefix() const {
    return list_.form() == SynthForm::raw ? "model.language_model." : "language_model.model.";
  }
  SynthTensorList::Name name(const char* folder, const char* block) const {
    return {at_ + folder, block_ + block};
  }

  void list_layer_inputs() {
    const NumberFormat heads = list_.format().heads;
    const int64_t width = shape_.layers * parts_.layer_input;
    // A step reads one row of the table.
    list_
        .matrix({prefix() + "embed_tokens_per_layer", "per_layer_token_embd"}, shape_.vocabulary, width,
                heads)
        .streamed = false;
    list_.kept_matrix({prefix() + "per_layer_model_projection", "per_layer_model_proj"}, width, shape_.width,
                      heads, DType::bf16);
    list_.vector({prefix() + "per_layer_projection_norm", "per_layer_proj_norm"}, parts_.layer_input);
  }

  void list_attention(int64_t l) {
    const NumberFormat format = list_.of_layer(l);
    const bool full = shape_.attends_to_all(l), shares = l >= shape_.layers - parts_.shared_layers;
    const int64_t head_dim = full ? parts_.full_head_dim : shape_.head_dim, width = shape_.width;
    const int64_t q = shape_.heads * head_dim;
    const int64_t kv = (full ? parts_.full_kv_heads : shape_.kv_heads) * head_dim;
    list_.vector(name("input_layernorm", "attn_norm"), width);
    list_.matrix(name("self_attn.q_proj", "attn_q"), q, width, format);
    list_.vector(name("self_attn.q_norm", "attn_q_norm"), head_dim);
    if (!shares) {
      list_.matrix(name("self_attn.k_proj", "attn_k"), kv, width, format);
      // Scores are not divided by √(head dim): a small norm keeps random ones from saturating.
      list_.vector(name("self_attn.k_norm", "attn_k_norm"), head_dim).scale = 1.0f / 16;
      if (!full || !parts_.keys_are_values)
        list_.matrix(name("self_attn.v_proj", "attn_v"), kv, width, format);
    }
    list_.matrix(name("self_attn.o_proj", "attn_output"), width, q, format);
    list_.vector(name("post_attention_layernorm", "post_attention_norm"), width);
  }

  void list_feed_forward(int64_t l) {
    const NumberFormat format = list_.of_layer(l);
    const bool doubled = parts_.double_wide && l >= shape_.layers - parts_.shared_layers;
    const int64_t width = shape_.width, ffn = shape_.ffn_width * (doubled ? 2 : 1);
    list_.vector(name("pre_feedforward_layernorm", "ffn_norm"), width);
    list_.matrix(name("mlp.gate_proj", "ffn_gate"), ffn, width, format);
    list_.matrix(name("mlp.up_proj", "ffn_up"), ffn, width, format);
    list_.matrix(name("mlp.down_proj", "ffn_down"), width, ffn, format);
    if (shape_.experts.count > 0) list_experts(format);
    list_.vector(name("post_feedforward_layernorm", "post_ffw_norm"), width);
    if (parts_.layer_input > 0) {
      const NumberFormat heads = list_.format().heads;
      list_.matrix(name("per_layer_input_gate", "inp_gate"), parts_.layer_input, width, heads);
      list_.matrix(name("per_layer_projection", "proj"), width, parts_.layer_input, heads);
      list_.vector(name("post_per_layer_input_norm", "post_norm"), width);
    }
    list_.vector(name("layer_scalar", "layer_output_scale.weight"), 1).is_bare = true;
  }

  void list_experts(NumberFormat format) {
    const SynthExperts& experts = shape_.experts;
    const int64_t width = shape_.width, hidden = experts.width;
    list_.kept_matrix(name("router.proj", "ffn_gate_inp"), experts.count, width, list_.format().heads);
    SynthTensor& router_norm = list_.vector(name("router.scale", "ffn_gate_inp.scale"), width);
    router_norm.is_bare = true;
    router_norm.scale = 32;  // undoes 1/√width, about: random routes are then far from ties
    list_.vector(name("router.per_expert_scale", "ffn_down_exps.scale"), experts.count).is_bare = true;
    list_.vector(name("post_feedforward_layernorm_1", "post_ffw_norm_1"), width);
    list_.vector(name("pre_feedforward_layernorm_2", "pre_ffw_norm_2"), width);
    list_.vector(name("post_feedforward_layernorm_2", "post_ffw_norm_2"), width);
    if (list_.form() == SynthForm::mlx) {
      list_.stack(name("experts.switch_glu.gate_proj", ""), experts, hidden, width, format);
      list_.stack(name("experts.switch_glu.up_proj", ""), experts, hidden, width, format);
      list_.stack(name("experts.switch_glu.down_proj", ""), experts, width, hidden, format);
      return;
    }
    const bool raw = list_.form() == SynthForm::raw;
    list_.stack(name("experts.gate_up_proj", "ffn_gate_up_exps"), experts, 2 * hidden, width, format)
        .is_bare = raw;
    list_.stack(name("experts.down_proj", "ffn_down_exps"), experts, width, hidden, format).is_bare = raw;
  }

  const SynthShape& shape_;
  const SynthGemma4& parts_;
  SynthTensorList& list_;
  std::string at_, block_;  // before the names of the layer in hand
};

}  // namespace

void list_gemma4_tensors(const SynthShape& shape, SynthTensorList& list) { Gemma4Tensors(shape, list).run(); }

}  // namespace rafter::lab

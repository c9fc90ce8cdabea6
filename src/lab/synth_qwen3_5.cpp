// Qwen3.5's tensors in every form. Published norms are stored less 1, convolutions [channels, 1, taps].
#include "lab/synth_tensors.h"

namespace rafter::lab {
namespace {

using tensor::NumberFormat;

// Lists one layer after the other.
class Qwen35Tensors {
 public:
  Qwen35Tensors(const SynthShape& shape, SynthTensorList& list)
      : shape_(shape), parts_(*shape.qwen3_5), list_(list) {}

  void run() {
    const NumberFormat heads = list_.format().heads;
    const bool raw = list_.form() == SynthForm::raw;
    const std::string prefix = raw ? "model.language_model." : "language_model.model.";
    list_.matrix({prefix + "embed_tokens", "token_embd"}, shape_.vocabulary, shape_.width, heads).streamed =
        shape_.tied_head;
    for (int64_t l = 0; l < shape_.layers; ++l) {
      at_ = fmt::format("{}layers.{}.", prefix, l);
      block_ = fmt::format("blk.{}.", l);
      norm(name("input_layernorm", "attn_norm"), shape_.width);
      shape_.attends_to_all(l) ? list_attention(l) : list_delta_net(l);
      norm(name("post_attention_layernorm", "post_attention_norm"), shape_.width);
      shape_.experts.count > 0 ? list_mixture(l) : list_feed_forward(l);
    }
    norm({prefix + "norm", "output_norm"}, shape_.width);
    if (shape_.tied_head) return;
    list_.matrix({raw ? "lm_head" : "language_model.lm_head", "output"}, shape_.vocabulary, shape_.width,
                 heads);
  }

 private:
  SynthTensorList::Name name(const char* folder, const char* block) const {
    return {at_ + folder, block_ + block};
  }
  void norm(const SynthTensorList::Name& name, int64_t size) {
    list_.vector(name, size,
                 list_.form() == SynthForm::raw ? SynthContent::centred_norm : SynthContent::norm);
  }

  // Every head of the query is followed by its gate.
  void list_attention(int64_t l) {
    const NumberFormat format = list_.of_layer(l);
    const int64_t q = shape_.heads * shape_.head_dim, kv = shape_.kv_heads * shape_.head_dim;
    list_.matrix(name("self_attn.q_proj", "attn_q"), 2 * q, shape_.width, format);
    list_.matrix(name("self_attn.k_proj", "attn_k"), kv, shape_.width, format);
    list_.matrix(name("self_attn.v_proj", "attn_v"), kv, shape_.width, format);
    norm(name("self_attn.q_norm", "attn_q_norm"), shape_.head_dim);
    norm(name("self_attn.k_norm", "attn_k_norm"), shape_.head_dim);
    list_.matrix(name("self_attn.o_proj", "attn_output"), shape_.width, q, format);
  }

  void list_delta_net(int64_t l) {
    const NumberFormat format = list_.of_layer(l);
    const bool gguf = list_.form() == SynthForm::gguf;
    const int64_t width = shape_.width, heads = parts_.value_heads;
    const int64_t values = heads * parts_.value_dim;
    const int64_t channels = 2 * parts_.key_heads * parts_.key_dim + values;
    list_.matrix(name("linear_attn.in_proj_qkv", "attn_qkv"), channels, width, format);
    list_.matrix(name("linear_attn.in_proj_z", "attn_gate"), values, width, format);
    list_.matrix(name("linear_attn.in_proj_b", "ssm_beta"), heads, width, format);
    list_.matrix(name("linear_attn.in_proj_a", "ssm_alpha"), heads, width, format);
    SynthTensor& convolution =
        list_.vector(name("linear_attn.conv1d", "ssm_conv1d"), channels, SynthContent::convolution);
    convolution.shape = gguf                             ? std::vector{channels, parts_.taps}
                        : list_.form() == SynthForm::mlx ? std::vector{channels, parts_.taps, int64_t{1}}
                                                         : std::vector{channels, int64_t{1}, parts_.taps};
    list_
        .vector(name("linear_attn.A_log", "ssm_a"), heads,
                gguf ? SynthContent::negative_rate : SynthContent::decay)
        .is_bare = true;
    list_.vector(name("linear_attn.dt_bias", "ssm_dt.bias"), heads, SynthContent::time_bias).is_bare = true;
    list_.vector(name("linear_attn.norm", "ssm_norm"), parts_.value_dim);  // never less 1
    list_.matrix(name("linear_attn.out_proj", "ssm_out"), width, values, format);
  }

  void list_feed_forward(int64_t l) {
    const NumberFormat format = list_.of_layer(l);
    list_.matrix(name("mlp.gate_proj", "ffn_gate"), shape_.ffn_width, shape_.width, format);
    list_.matrix(name("mlp.up_proj", "ffn_up"), shape_.ffn_width, shape_.width, format);
    list_.matrix(name("mlp.down_proj", "ffn_down"), shape_.width, shape_.ffn_width, format);
  }

  void list_mixture(int64_t l) {
    const NumberFormat format = list_.of_layer(l), heads = list_.format().heads;
    const SynthExperts& experts = shape_.experts;
    const int64_t width = shape_.width, hidden = experts.width, shared = experts.shared_width;
    list_.kept_matrix(name("mlp.gate", "ffn_gate_inp"), experts.count, width, heads);
    if (list_.form() == SynthForm::raw) {
      list_.stack(name("mlp.experts.gate_up_proj", ""), experts, 2 * hidden, width, format).is_bare = true;
      list_.stack(name("mlp.experts.down_proj", ""), experts, width, hidden, format).is_bare = true;
    } else {
      list_.stack(name("mlp.switch_mlp.gate_proj", "ffn_gate_exps"), experts, hidden, width, format);
      list_.stack(name("mlp.switch_mlp.up_proj", "ffn_up_exps"), experts, hidden, width, format);
      list_.stack(name("mlp.switch_mlp.down_proj", "ffn_down_exps"), experts, width, hidden, format);
    }
    list_.matrix(name("mlp.shared_expert.gate_proj", "ffn_gate_shexp"), shared, width, format);
    list_.matrix(name("mlp.shared_expert.up_proj", "ffn_up_shexp"), shared, width, format);
    list_.matrix(name("mlp.shared_expert.down_proj", "ffn_down_shexp"), width, shared, format);
    list_.kept_matrix(name("mlp.shared_expert_gate", "ffn_gate_inp_shexp"), 1, width, heads);
  }

  const SynthShape& shape_;
  const SynthQwen35& parts_;
  SynthTensorList& list_;
  std::string at_, block_;  // before the names of the layer in hand
};

}  // namespace

void list_qwen3_5_tensors(const SynthShape& shape, SynthTensorList& list) {
  Qwen35Tensors(shape, list).run();
}

}  // namespace rafter::lab

#include "cli/synth_shape.h"

#include <algorithm>

namespace rafter::cli {
namespace {

using tensor::DType;
using tensor::FormatKind;
using tensor::NumberFormat;

const SynthShape kShapes[] = {
    {.name = "cpm5-1b",
     .model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .pre_tokenizer = "minicpm5",
     .layers = 24,
     .width = 1536,
     .feed_forward = 4608,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 128,
     .vocabulary = 130560,
     .norm_epsilon = 1e-6,
     .rope_theta = 5e6,
     .max_positions = 131072,
     .tied_head = false,
     .qk_norm = false,
     .rope_scaling = std::nullopt,
     .adds_bos = false,
     .bos = 0,
     .eos = 1,
     .turn_start = 130072,
     .turn_end = 130073},
    {.name = "llama3-8b",
     .model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .pre_tokenizer = "llama-bpe",
     .layers = 32,
     .width = 4096,
     .feed_forward = 14336,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .vocabulary = 128256,
     .norm_epsilon = 1e-5,
     .rope_theta = 5e5,
     .max_positions = 8192,
     .tied_head = false,
     .qk_norm = false,
     .rope_scaling = std::nullopt,
     .adds_bos = true,
     .bos = 128000,
     .eos = 128001,
     .turn_start = 128006,
     .turn_end = 128009},
    {.name = "llama3.2-1b",
     .model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .pre_tokenizer = "llama-bpe",
     .layers = 16,
     .width = 2048,
     .feed_forward = 8192,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .vocabulary = 128256,
     .norm_epsilon = 1e-5,
     .rope_theta = 5e5,
     .max_positions = 131072,
     .tied_head = true,
     .qk_norm = false,
     .rope_scaling = Llama3Scaling{32, 1, 4, 8192},
     .adds_bos = true,
     .bos = 128000,
     .eos = 128001,
     .turn_start = 128006,
     .turn_end = 128009},
    {.name = "llama3-tiny",
     .model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .pre_tokenizer = "llama-bpe",
     .layers = 3,
     .width = 256,
     .feed_forward = 768,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 32,
     .vocabulary = 512,
     .norm_epsilon = 1e-5,
     .rope_theta = 5e5,
     .max_positions = 2048,
     .tied_head = false,
     .qk_norm = false,
     .rope_scaling = Llama3Scaling{8, 1, 4, 256},
     .adds_bos = true,
     .bos = 500,
     .eos = 501,
     .turn_start = 506,
     .turn_end = 509},
    {.name = "qwen3-tiny",
     .model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .pre_tokenizer = "qwen2",
     .layers = 3,
     .width = 256,
     .feed_forward = 768,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 64,
     .vocabulary = 512,
     .norm_epsilon = 1e-6,
     .rope_theta = 1e6,
     .max_positions = 2048,
     .tied_head = true,
     .qk_norm = true,
     .rope_scaling = std::nullopt,
     .adds_bos = false,
     .bos = 500,
     .eos = 500,
     .turn_start = 501,
     .turn_end = 502},
};

const NumberFormat kBf16 = NumberFormat::plain(DType::bf16);
const NumberFormat kAffine4 = NumberFormat::affine(4, 64, DType::bf16);
const NumberFormat kAffine8 = NumberFormat::affine(8, 64, DType::bf16);
const NumberFormat kQ4 = NumberFormat::block(FormatKind::q4_0);
const NumberFormat kQ6 = NumberFormat::block(FormatKind::q6_k);
const NumberFormat kQ8 = NumberFormat::block(FormatKind::q8_0);

const SynthScheme kSchemes[] = {
    {"bf16", SynthContainer::safetensors, kBf16, kBf16, kBf16},
    {"mlx4", SynthContainer::safetensors, kAffine4, kAffine4, kAffine4},
    {"mlx8", SynthContainer::safetensors, kAffine8, kAffine8, kAffine8},
    {"mlx-mixed", SynthContainer::safetensors, kAffine4, kAffine8, kAffine8},
    {"q4_0", SynthContainer::gguf, kQ4, kQ6,
     kQ4},  // q6_k: what llama.cpp's quantiser gives the head of a q4_0 file
    {"q8_0", SynthContainer::gguf, kQ8, kQ8, kQ8},
};

template <typename Entry>
base::Result<const Entry*> find_entry(std::span<const Entry> entries, const std::string& name,
                                      const char* what) {
  std::string names;
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return base::Error{base::ErrorCode::invalid_argument, fmt::format("unknown {} \"{}\"", what, name), "synth",
                     "known: " + names};
}

class TensorList {
 public:
  TensorList(const SynthShape& shape, const SynthScheme& scheme) : shape_(shape), scheme_(scheme) {}

  void matrix(std::string hf_module, std::string gguf_name, int64_t rows, int64_t columns,
              NumberFormat format) {
    tensors.push_back({std::move(hf_module), std::move(gguf_name), rows, columns, format});
  }
  void vector(std::string hf_module, std::string gguf_name, int64_t size) {
    tensors.push_back({std::move(hf_module), std::move(gguf_name), size, 0, {}});
  }

  void layer(int64_t l) {
    const std::string hf = fmt::format("model.layers.{}.", l), gguf = fmt::format("blk.{}.", l);
    const bool outer = l == 0 || l == shape_.layers - 1;
    const NumberFormat format = outer ? scheme_.outer_layers : scheme_.matrices;
    const int64_t width = shape_.width, q = shape_.heads * shape_.head_dim,
                  kv = shape_.kv_heads * shape_.head_dim;
    vector(hf + "input_layernorm", gguf + "attn_norm", width);
    matrix(hf + "self_attn.q_proj", gguf + "attn_q", q, width, format);
    matrix(hf + "self_attn.k_proj", gguf + "attn_k", kv, width, format);
    matrix(hf + "self_attn.v_proj", gguf + "attn_v", kv, width, format);
    if (shape_.qk_norm) {
      vector(hf + "self_attn.q_norm", gguf + "attn_q_norm", shape_.head_dim);
      vector(hf + "self_attn.k_norm", gguf + "attn_k_norm", shape_.head_dim);
    }
    matrix(hf + "self_attn.o_proj", gguf + "attn_output", width, q, format);
    vector(hf + "post_attention_layernorm", gguf + "ffn_norm", width);
    matrix(hf + "mlp.gate_proj", gguf + "ffn_gate", shape_.feed_forward, width, format);
    matrix(hf + "mlp.up_proj", gguf + "ffn_up", shape_.feed_forward, width, format);
    matrix(hf + "mlp.down_proj", gguf + "ffn_down", width, shape_.feed_forward, format);
  }

  std::vector<SynthTensor> tensors;

 private:
  const SynthShape& shape_;
  const SynthScheme& scheme_;
};

}  // namespace

std::span<const SynthShape> synth_shapes() { return kShapes; }

base::Result<const SynthShape*> find_synth_shape(const std::string& name) {
  return find_entry<SynthShape>(kShapes, name, "shape");
}

std::span<const SynthScheme> synth_schemes() { return kSchemes; }

base::Result<const SynthScheme*> find_synth_scheme(const std::string& name) {
  return find_entry<SynthScheme>(kSchemes, name, "format");
}

std::vector<SynthTensor> synth_tensors(const SynthShape& shape, const SynthScheme& scheme) {
  TensorList list(shape, scheme);
  list.matrix("model.embed_tokens", "token_embd", shape.vocabulary, shape.width, scheme.heads);
  for (int64_t l = 0; l < shape.layers; ++l) list.layer(l);
  list.vector("model.norm", "output_norm", shape.width);
  if (!shape.tied_head) list.matrix("lm_head", "output", shape.vocabulary, shape.width, scheme.heads);
  return std::move(list.tensors);
}

}  // namespace rafter::cli

#include "lab/synth_shapes.h"

#include "lab/synth_names.h"

namespace rafter::lab {
namespace {

// A turn of the ChatML form; `before` opens the prompt.
std::string chatml_template(const std::string& before) {
  return before +
         "{% for message in messages %}"
         "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

const char kLlama3Template[] =
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + (message['content'] | trim) + "
    "'<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

// Llama 3's markers stand together; the real ones begin at 128000.
SynthTokens llama3_tokens(int32_t first) {
  return {.markers = {{first, "<|begin_of_text|>"},
                      {first + 1, "<|end_of_text|>"},
                      {first + 4, "<|finetune_right_pad_id|>"},
                      {first + 6, "<|start_header_id|>"},
                      {first + 7, "<|end_header_id|>"},
                      {first + 8, "<|eom_id|>"},
                      {first + 9, "<|eot_id|>"},
                      {first + 10, "<|python_tag|>"}},
          .bos = first,
          .eos = first + 9,
          .pad = first + 4,
          .stops = {first + 1, first + 8, first + 9},
          .adds_bos = true,
          .chat_template = kLlama3Template};
}

// Qwen's begin at 151643.
SynthTokens qwen3_tokens(int32_t first) {
  return {.markers = {{first, "<|endoftext|>"},
                      {first + 1, "<|im_start|>"},
                      {first + 2, "<|im_end|>"},
                      {first + 24, "<think>", false},
                      {first + 25, "</think>", false}},
          .bos = first,
          .eos = first + 2,
          .pad = first,
          .stops = {first + 2, first},
          .adds_bos = false,
          .chat_template = chatml_template("")};
}

SynthTokens minicpm5_tokens() {
  return {.markers = {{0, "<s>"},
                      {1, "</s>"},
                      {8, "<think>", false},
                      {9, "</think>", false},
                      {130072, "<|im_start|>"},
                      {130073, "<|im_end|>"}},
          .bos = 0,
          .eos = 1,
          .pad = 1,
          .stops = {1, 130073},
          .adds_bos = false,
          .chat_template = chatml_template("{{ bos_token }}")};
}

const SynthSampling kLlama3Sampling{.temperature = 0.6, .top_p = 0.9};
const SynthSampling kQwen3Sampling{.temperature = 0.6, .top_p = 0.95, .top_k = 20};

std::vector<SynthShape> dense_shapes() {
  // The tiny shapes have every in-dimension a multiple of 256, so that each number format can hold them.
  return {
      {.name = "cpm5-1b",
       .real_name = "MiniCPM5-1B",
       .model_type = "llama",
       .class_name = "LlamaForCausalLM",
       .layers = 24,
       .width = 1536,
       .ffn_width = 4608,
       .heads = 16,
       .kv_heads = 2,
       .head_dim = 128,
       .vocabulary = 130560,
       .norm_epsilon = 1e-6,
       .rope_theta = 5e6,
       .rope_scaling = std::nullopt,
       .max_positions = 131072,
       .tied_head = false,
       .qk_norm = false,
       .tokens = minicpm5_tokens(),
       .sampling = {}},
      // 3.1 and not 3: the same matrices, and the longer context lets one shape serve every measurement.
      {.name = "llama3-8b",
       .real_name = "Llama-3.1-8B-Instruct",
       .model_type = "llama",
       .class_name = "LlamaForCausalLM",
       .layers = 32,
       .width = 4096,
       .ffn_width = 14336,
       .heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .vocabulary = 128256,
       .norm_epsilon = 1e-5,
       .rope_theta = 5e5,
       .rope_scaling = Llama3Scaling{8, 1, 4, 8192},
       .max_positions = 131072,
       .tied_head = false,
       .qk_norm = false,
       .tokens = llama3_tokens(128000),
       .sampling = kLlama3Sampling},
      {.name = "llama3.2-1b",
       .real_name = "Llama-3.2-1B-Instruct",
       .model_type = "llama",
       .class_name = "LlamaForCausalLM",
       .layers = 16,
       .width = 2048,
       .ffn_width = 8192,
       .heads = 32,
       .kv_heads = 8,
       .head_dim = 64,
       .vocabulary = 128256,
       .norm_epsilon = 1e-5,
       .rope_theta = 5e5,
       .rope_scaling = Llama3Scaling{32, 1, 4, 8192},
       .max_positions = 131072,
       .tied_head = true,
       .qk_norm = false,
       .tokens = llama3_tokens(128000),
       .sampling = kLlama3Sampling},
      {.name = "llama3-tiny",
       .real_name = "Llama-3-tiny",
       .model_type = "llama",
       .class_name = "LlamaForCausalLM",
       .layers = 3,
       .width = 256,
       .ffn_width = 768,
       .heads = 8,
       .kv_heads = 2,
       .head_dim = 32,
       .vocabulary = 512,
       .norm_epsilon = 1e-5,
       .rope_theta = 5e5,
       .rope_scaling = Llama3Scaling{8, 1, 4, 512},
       .max_positions = 4096,
       .tied_head = false,
       .qk_norm = false,
       .tokens = llama3_tokens(480),
       .sampling = kLlama3Sampling},
      {.name = "qwen3-tiny",
       .real_name = "Qwen3-tiny",
       .model_type = "qwen3",
       .class_name = "Qwen3ForCausalLM",
       .layers = 3,
       .width = 256,
       .ffn_width = 768,
       .heads = 8,
       .kv_heads = 2,
       .head_dim = 64,
       .vocabulary = 512,
       .norm_epsilon = 1e-6,
       .rope_theta = 1e6,
       .rope_scaling = std::nullopt,
       .max_positions = 4096,
       .tied_head = true,
       .qk_norm = true,
       .tokens = qwen3_tokens(480),
       .sampling = kQwen3Sampling},
  };
}

std::vector<SynthShape> make_shapes() {
  std::vector<SynthShape> shapes = dense_shapes();
  for (const auto& family : {gemma4_synth_shapes(), qwen3_5_synth_shapes()})
    shapes.insert(shapes.end(), family.begin(), family.end());
  return shapes;
}

}  // namespace

std::span<const SynthShape> synth_shapes() {
  static const std::vector<SynthShape> shapes = make_shapes();
  return shapes;
}

base::Result<const SynthShape*> find_synth_shape(const std::string& name) {
  return find_by_name(synth_shapes(), name, "shape");
}

}  // namespace rafter::lab

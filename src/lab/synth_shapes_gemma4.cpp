// Gemma 4's sizes, and a tiny one of each with the same parts.
#include "lab/synth_shapes.h"

namespace rafter::lab {
namespace {

const char kTemplate[] =
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' + "
    "(message['content'] | trim) + '<turn|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}";

SynthTokens gemma4_tokens() {
  return {.markers = {{0, "<pad>"},
                      {1, "<eos>"},
                      {2, "<bos>"},
                      {46, "<|tool>"},
                      {47, "<tool|>"},
                      {48, "<|tool_call>"},
                      {49, "<tool_call|>"},
                      {50, "<|tool_response>"},
                      {51, "<tool_response|>"},
                      {52, "<|\"|>"},
                      {98, "<|think|>"},
                      {100, "<|channel>"},
                      {101, "<channel|>"},
                      {105, "<|turn>"},
                      {106, "<turn|>"}},
          .bos = 2,
          .eos = 1,
          .pad = 0,
          .stops = {1, 106, 50},
          .adds_bos = true,
          .chat_template = kTemplate};
}

// What all sizes share.
SynthShape gemma4(std::string name, std::string real_name) {
  SynthShape shape{};
  shape.name = std::move(name);
  shape.real_name = std::move(real_name);
  shape.model_type = "gemma4";
  shape.class_name = "Gemma4ForConditionalGeneration";
  shape.head_dim = 256;
  shape.vocabulary = 262144;
  shape.norm_epsilon = 1e-6;
  shape.rope_theta = 1e6;  // of full layers; sliding ones turn at 1e4
  shape.max_positions = 262144;
  shape.tied_head = true;
  shape.qk_norm = true;
  shape.tokens = gemma4_tokens();
  shape.sampling = {.temperature = 1.0, .top_p = 0.95, .top_k = 64};
  return shape;
}

SynthShape e2b() {
  SynthShape shape = gemma4("gemma4-e2b", "gemma-4-E2B-it");
  shape.layers = 35;
  shape.width = 1536;
  shape.ffn_width = 6144;
  shape.heads = 8;
  shape.kv_heads = 1;
  shape.max_positions = 131072;
  shape.gemma4 = {.window = 512,
                  .period = 5,
                  .full_head_dim = 512,
                  .full_kv_heads = 1,
                  .shared_layers = 20,
                  .double_wide = true,
                  .layer_input = 256};
  return shape;
}

SynthShape e4b() {
  SynthShape shape = gemma4("gemma4-e4b", "gemma-4-E4B-it");
  shape.layers = 42;
  shape.width = 2560;
  shape.ffn_width = 10240;
  shape.heads = 8;
  shape.kv_heads = 2;
  shape.max_positions = 131072;
  shape.gemma4 = {.window = 512,
                  .period = 6,
                  .full_head_dim = 512,
                  .full_kv_heads = 2,
                  .shared_layers = 18,
                  .layer_input = 256};
  return shape;
}

SynthShape twelve_b() {
  SynthShape shape = gemma4("gemma4-12b", "gemma-4-12B-it");
  shape.layers = 48;
  shape.width = 3840;
  shape.ffn_width = 15360;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.gemma4 = {.window = 1024,
                  .period = 6,
                  .full_head_dim = 512,
                  .full_kv_heads = 1,
                  .keys_are_values = true,
                  .unified = true};
  return shape;
}

SynthShape twenty_six_b() {
  SynthShape shape = gemma4("gemma4-26b-a4b", "gemma-4-26B-A4B-it");
  shape.layers = 30;
  shape.width = 2816;
  shape.ffn_width = 2112;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.experts = {.count = 128, .chosen = 8, .width = 704};
  shape.gemma4 = {
      .window = 1024, .period = 6, .full_head_dim = 512, .full_kv_heads = 2, .keys_are_values = true};
  return shape;
}

// The same parts, each once or twice, in-dimensions multiples of 256.
SynthShape tiny(SynthShape shape) {
  SynthGemma4& parts = *shape.gemma4;
  shape.name += "-tiny";
  shape.real_name += "-tiny";
  shape.layers = 2 * parts.period;
  shape.width = 256;
  shape.ffn_width = 512;
  shape.heads = 8;
  shape.kv_heads = std::min<int64_t>(shape.kv_heads, 2);
  shape.head_dim = 32;
  shape.vocabulary = 512;
  shape.max_positions = 65536;
  if (parts.shared_layers > 0) parts.shared_layers = parts.period - 1;
  parts.window = 64;
  parts.full_head_dim = 64;
  parts.full_kv_heads = std::min(parts.full_kv_heads, shape.kv_heads);
  if (shape.experts.count > 0) shape.experts = {.count = 8, .chosen = 2, .width = 256};
  return shape;
}

}  // namespace

std::vector<SynthShape> gemma4_synth_shapes() {
  const std::vector<SynthShape> sizes = {e2b(), e4b(), twelve_b(), twenty_six_b()};
  std::vector<SynthShape> shapes = sizes;
  for (const SynthShape& size : sizes) shapes.push_back(tiny(size));
  return shapes;
}

}  // namespace rafter::lab

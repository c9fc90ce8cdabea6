// Qwen3.5's sizes, and a tiny one of each kind with the same parts.
#include "lab/synth_shapes.h"

namespace rafter::lab {
namespace {

const char kTemplate[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}";

// The real ones begin at 248044.
SynthTokens qwen3_5_tokens(int32_t first) {
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
          .chat_template = kTemplate};
}

// What all sizes share.
SynthShape qwen3_5(std::string name, std::string real_name, bool mixes) {
  SynthShape shape{};
  shape.name = std::move(name);
  shape.real_name = std::move(real_name);
  shape.model_type = mixes ? "qwen3_5_moe" : "qwen3_5";
  shape.class_name = mixes ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration";
  shape.head_dim = 256;
  shape.vocabulary = 248320;
  shape.norm_epsilon = 1e-6;
  shape.rope_theta = 1e7;
  shape.max_positions = 262144;
  shape.tied_head = false;
  shape.qk_norm = true;
  shape.tokens = qwen3_5_tokens(248044);
  shape.sampling = {.temperature = 0.6, .top_p = 0.95, .top_k = 20};
  return shape;
}

SynthShape four_b() {
  SynthShape shape = qwen3_5("qwen3.5-4b", "Qwen3.5-4B", false);
  shape.layers = 32;
  shape.width = 2560;
  shape.ffn_width = 9216;
  shape.heads = 16;
  shape.kv_heads = 4;
  shape.tied_head = true;
  shape.qwen3_5 = {
      .period = 4, .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .taps = 4};
  return shape;
}

SynthShape twenty_seven_b() {
  SynthShape shape = qwen3_5("qwen3.5-27b", "Qwen3.5-27B", false);
  shape.layers = 64;
  shape.width = 5120;
  shape.ffn_width = 17408;
  shape.heads = 24;
  shape.kv_heads = 4;
  shape.qwen3_5 = {
      .period = 4, .key_heads = 16, .value_heads = 48, .key_dim = 128, .value_dim = 128, .taps = 4};
  return shape;
}

SynthShape thirty_five_b() {
  SynthShape shape = qwen3_5("qwen3.5-35b-a3b", "Qwen3.5-35B-A3B", true);
  shape.layers = 40;
  shape.width = 2048;
  shape.ffn_width = 0;  // the mixture is all there is
  shape.heads = 16;
  shape.kv_heads = 2;
  shape.experts = {.count = 256, .chosen = 8, .width = 512, .shared_width = 512};
  shape.qwen3_5 = {
      .period = 4, .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .taps = 4};
  return shape;
}

// The same parts, in-dimensions multiples of 256.
SynthShape tiny(SynthShape shape) {
  const int64_t value_heads_per_key = shape.qwen3_5->value_heads / shape.qwen3_5->key_heads;
  shape.name += "-tiny";
  shape.real_name += "-tiny";
  shape.layers = 8;
  shape.width = 256;
  shape.ffn_width = shape.ffn_width == 0 ? 0 : 512;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 64;
  shape.vocabulary = 512;
  shape.max_positions = 65536;
  shape.tokens = qwen3_5_tokens(480);
  if (shape.experts.count > 0) shape.experts = {.count = 8, .chosen = 2, .width = 256, .shared_width = 256};
  // Three value heads to a key head make a width that 256 does not divide with fewer or smaller heads.
  shape.qwen3_5 = {.period = 4,
                   .key_heads = 4,
                   .value_heads = 4 * value_heads_per_key,
                   .key_dim = 32,
                   .value_dim = 64,
                   .taps = 4};
  return shape;
}

}  // namespace

std::vector<SynthShape> qwen3_5_synth_shapes() {
  const std::vector<SynthShape> sizes = {four_b(), twenty_seven_b(), thirty_five_b()};
  std::vector<SynthShape> shapes = sizes;
  for (const SynthShape& size : sizes) shapes.push_back(tiny(size));
  return shapes;
}

}  // namespace rafter::lab

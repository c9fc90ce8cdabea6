// Gemma 4's configuration in both containers' words.
#include <nlohmann/json.hpp>

#include "lab/synth_config.h"

namespace rafter::lab {
namespace {

using nlohmann::json;

constexpr double kSlidingTheta = 1e4, kTurningPart = 0.25, kLogitsCap = 30;

std::vector<int32_t> by_layer(const SynthShape& shape, int64_t sliding, int64_t full) {
  std::vector<int32_t> values;
  for (int64_t l = 0; l < shape.layers; ++l)
    values.push_back(static_cast<int32_t>(shape.attends_to_all(l) ? full : sliding));
  return values;
}

}  // namespace

void add_gemma4_config(const SynthShape& shape, json& text) {
  const SynthGemma4& parts = *shape.gemma4;
  text["model_type"] = parts.unified ? "gemma4_unified_text" : "gemma4_text";
  text.erase("hidden_act");
  text.erase("rope_scaling");
  text.erase("rope_theta");
  text["pad_token_id"] = shape.tokens.pad;
  text["hidden_activation"] = "gelu_pytorch_tanh";
  text["global_head_dim"] = parts.full_head_dim;
  text["num_global_key_value_heads"] = parts.keys_are_values ? json(parts.full_kv_heads) : json(nullptr);
  text["attention_k_eq_v"] = parts.keys_are_values;
  text["num_kv_shared_layers"] = parts.shared_layers;
  text["use_double_wide_mlp"] = parts.double_wide;
  text["hidden_size_per_layer_input"] = parts.layer_input;
  text["vocab_size_per_layer_input"] = shape.vocabulary;
  text["sliding_window"] = parts.window;
  text["final_logit_softcapping"] = kLogitsCap;
  json types = json::array();
  for (int64_t l = 0; l < shape.layers; ++l)
    types.push_back(shape.attends_to_all(l) ? "full_attention" : "sliding_attention");
  text["layer_types"] = std::move(types);
  text["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"rope_theta", shape.rope_theta},
        {"partial_rotary_factor", kTurningPart}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", kSlidingTheta}}}};
  const bool mixes = shape.experts.count > 0;
  text["enable_moe_block"] = mixes;
  text["num_experts"] = mixes ? json(shape.experts.count) : json(nullptr);
  text["top_k_experts"] = mixes ? json(shape.experts.chosen) : json(nullptr);
  text["moe_intermediate_size"] = mixes ? json(shape.experts.width) : json(nullptr);
}

void put_gemma4_gguf_config(const SynthShape& shape, format::GgufWriter& writer) {
  const SynthGemma4& parts = *shape.gemma4;
  const auto set = [&](const char* key, int64_t value) {
    writer.set_u32(fmt::format("gemma4.{}", key), static_cast<uint32_t>(value));
  };
  std::vector<int32_t> widths;
  for (int64_t l = 0; l < shape.layers; ++l) {
    const bool doubled = parts.double_wide && l >= shape.layers - parts.shared_layers;
    widths.push_back(static_cast<int32_t>(shape.ffn_width * (doubled ? 2 : 1)));
  }
  writer.set_i32s("gemma4.feed_forward_length", widths);
  writer.set_i32s("gemma4.attention.head_count_kv", by_layer(shape, shape.kv_heads, parts.full_kv_heads));
  writer.set_bools("gemma4.attention.sliding_window_pattern", by_layer(shape, 1, 0));
  writer.set_f32("gemma4.rope.freq_base_swa", static_cast<float>(kSlidingTheta));
  writer.set_f32("gemma4.final_logit_softcapping", static_cast<float>(kLogitsCap));
  set("attention.key_length", parts.full_head_dim);
  set("attention.value_length", parts.full_head_dim);
  set("attention.key_length_swa", shape.head_dim);
  set("attention.value_length_swa", shape.head_dim);
  set("rope.dimension_count", parts.full_head_dim);
  set("rope.dimension_count_swa", shape.head_dim);
  set("attention.sliding_window", parts.window);
  set("attention.shared_kv_layers", parts.shared_layers);
  set("embedding_length_per_layer_input", parts.layer_input);
}

std::vector<float> gemma4_rope_divisors(const SynthShape& shape) {
  const int64_t pairs = shape.gemma4->full_head_dim / 2;
  std::vector<float> divisors(static_cast<size_t>(pairs), 1e30f);
  const auto turning = static_cast<int64_t>(kTurningPart * static_cast<double>(pairs));
  std::fill_n(divisors.begin(), turning, 1.0f);
  return divisors;
}

}  // namespace rafter::lab

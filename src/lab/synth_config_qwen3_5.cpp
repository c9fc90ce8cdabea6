// Qwen3.5's configuration in both containers' words.
#include <nlohmann/json.hpp>

#include "lab/synth_config.h"

namespace rafter::lab {
namespace {

constexpr double kTurningPart = 0.25;  // of each head

}  // namespace

void add_qwen3_5_config(const SynthShape& shape, nlohmann::json& text) {
  const SynthQwen35& parts = *shape.qwen3_5;
  text["model_type"] = shape.model_type + "_text";
  text.erase("rope_scaling");
  text.erase("rope_theta");
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", shape.rope_theta},
                             {"partial_rotary_factor", kTurningPart},
                             {"mrope_interleaved", true},
                             {"mrope_section", {11, 11, 10}}};
  text["attn_output_gate"] = true;
  text["full_attention_interval"] = parts.period;
  text["linear_num_key_heads"] = parts.key_heads;
  text["linear_num_value_heads"] = parts.value_heads;
  text["linear_key_head_dim"] = parts.key_dim;
  text["linear_value_head_dim"] = parts.value_dim;
  text["linear_conv_kernel_dim"] = parts.taps;
  nlohmann::json types = nlohmann::json::array();
  for (int64_t l = 0; l < shape.layers; ++l)
    types.push_back(shape.attends_to_all(l) ? "full_attention" : "linear_attention");
  text["layer_types"] = std::move(types);
  if (shape.experts.count == 0) return;
  text.erase("intermediate_size");
  text["num_experts"] = shape.experts.count;
  text["num_experts_per_tok"] = shape.experts.chosen;
  text["moe_intermediate_size"] = shape.experts.width;
  text["shared_expert_intermediate_size"] = shape.experts.shared_width;
  text["norm_topk_prob"] = true;
}

void put_qwen3_5_gguf_config(const SynthShape& shape, format::GgufWriter& writer) {
  const SynthQwen35& parts = *shape.qwen3_5;
  const std::string arch = gguf_architecture(shape) + ".";
  const auto set = [&](const char* key, int64_t value) {
    writer.set_u32(arch + key, static_cast<uint32_t>(value));
  };
  set("full_attention_interval", parts.period);
  set("ssm.conv_kernel", parts.taps);
  set("ssm.state_size", parts.key_dim);
  set("ssm.group_count", parts.key_heads);
  set("ssm.time_step_rank", parts.value_heads);
  set("ssm.inner_size", parts.value_heads * parts.value_dim);
  set("rope.dimension_count", static_cast<int64_t>(kTurningPart * static_cast<double>(shape.head_dim)));
  if (shape.experts.count > 0) set("expert_shared_feed_forward_length", shape.experts.shared_width);
}

}  // namespace rafter::lab

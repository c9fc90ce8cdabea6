#include "lab/synth_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/check.h"

namespace rafter::lab {
namespace {

using nlohmann::json;
using tensor::FormatKind;

json affine_entry(const tensor::NumberFormat& format) {
  return {{"group_size", format.group}, {"bits", format.bits}};
}

json quantization(const SynthFormat& format, std::span<const SynthTensor> tensors) {
  json block = affine_entry(format.inner);
  block["mode"] = "affine";
  for (const SynthTensor& tensor : tensors) {
    if (tensor.content == SynthContent::matrix && tensor.format != format.inner)
      block[tensor.module] = affine_entry(tensor.format);
  }
  return block;
}

json rope_scaling(const SynthShape& shape) {
  if (!shape.rope_scaling) return nullptr;
  const Llama3Scaling& scaling = *shape.rope_scaling;
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_frequency_factor},
          {"high_freq_factor", scaling.high_frequency_factor},
          {"original_max_position_embeddings", scaling.original_positions}};
}

// The keys that only one family's configs have.
void add_family_keys(const SynthShape& shape, json& config) {
  if (shape.model_type == "llama") {
    config["mlp_bias"] = false;
    config["pretraining_tp"] = 1;
  } else if (shape.model_type == "qwen3") {
    config["max_window_layers"] = shape.layers;
    config["sliding_window"] = nullptr;
    config["use_sliding_window"] = false;
  } else if (shape.gemma4) {
    add_gemma4_config(shape, config);
  } else if (shape.qwen3_5) {
    add_qwen3_5_config(shape, config);
  }
}

// Published with the parts that see images: the language model's config is one of several.
bool is_wrapped(const SynthShape& shape) { return shape.gemma4 || shape.qwen3_5; }

json wrapper(const SynthShape& shape, json text) {
  json config = {{"eos_token_id", shape.tokens.stops},
                 {"model_type", shape.model_type},
                 {"tie_word_embeddings", shape.tied_head},
                 {"torch_dtype", "bfloat16"},
                 {"vocab_size", shape.vocabulary}};
  if (shape.gemma4 && shape.gemma4->unified) config["model_type"] = "gemma4_unified";
  config["text_config"] = std::move(text);
  return config;
}

// llama.cpp's general.file_type: the type of most matrices.
uint32_t gguf_file_type(const SynthFormat& format) {
  switch (format.inner.kind) {
    case FormatKind::q4_0:
      return 2;
    case FormatKind::q8_0:
      return 7;
    case FormatKind::q4_k:
      return 14;
    case FormatKind::q5_k:
      return 16;
    case FormatKind::q6_k:
      return 18;
    default:
      RAFTER_CHECK(false, "no GGUF file type for {}", format.name);
  }
}

}  // namespace

std::string config_json(const SynthShape& shape, const SynthFormat& format,
                        std::span<const SynthTensor> tensors) {
  json text = {{"attention_bias", false},
               {"attention_dropout", 0.0},
               {"bos_token_id", shape.tokens.bos},
               {"eos_token_id", shape.tokens.stops},
               {"head_dim", shape.head_dim},
               {"hidden_act", "silu"},
               {"hidden_size", shape.width},
               {"initializer_range", 0.02},
               {"intermediate_size", shape.ffn_width},
               {"max_position_embeddings", shape.max_positions},
               {"model_type", shape.model_type},
               {"num_attention_heads", shape.heads},
               {"num_hidden_layers", shape.layers},
               {"num_key_value_heads", shape.kv_heads},
               {"rms_norm_eps", shape.norm_epsilon},
               {"rope_scaling", rope_scaling(shape)},
               {"rope_theta", shape.rope_theta},
               {"tie_word_embeddings", shape.tied_head},
               {"torch_dtype", "bfloat16"},
               {"use_cache", true},
               {"vocab_size", shape.vocabulary}};
  add_family_keys(shape, text);
  json config = is_wrapped(shape) ? wrapper(shape, std::move(text)) : std::move(text);
  config["architectures"] = json::array({shape.class_name});
  if (format.inner.kind == FormatKind::affine)
    config["quantization"] = config["quantization_config"] = quantization(format, tensors);
  return config.dump(4) + "\n";
}

std::string generation_config_json(const SynthShape& shape) {
  json config = {{"bos_token_id", shape.tokens.bos},
                 {"eos_token_id", shape.tokens.stops},
                 {"pad_token_id", shape.tokens.pad}};
  const SynthSampling& sampling = shape.sampling;
  if (sampling.temperature > 0) {
    config["do_sample"] = true;
    config["temperature"] = sampling.temperature;
  }
  if (sampling.top_p > 0) config["top_p"] = sampling.top_p;
  if (sampling.top_k > 0) config["top_k"] = sampling.top_k;
  return config.dump(2) + "\n";
}

std::string gguf_architecture(const SynthShape& shape) {
  if (shape.qwen3_5) return shape.experts.count > 0 ? "qwen35moe" : "qwen35";
  return shape.model_type;
}

void put_gguf_config(const SynthShape& shape, const SynthFormat& format, format::GgufWriter& writer) {
  const std::string arch = gguf_architecture(shape);
  const auto set = [&](const char* key, int64_t value) {
    writer.set_u32(arch + "." + key, static_cast<uint32_t>(value));
  };
  writer.set_string("general.architecture", arch);
  writer.set_string("general.type", "model");
  writer.set_string("general.name", shape.real_name + " shape, random weights");
  set("block_count", shape.layers);
  set("context_length", shape.max_positions);
  set("embedding_length", shape.width);
  set("attention.head_count", shape.heads);
  writer.set_f32(arch + ".attention.layer_norm_rms_epsilon", static_cast<float>(shape.norm_epsilon));
  writer.set_f32(arch + ".rope.freq_base", static_cast<float>(shape.rope_theta));
  set("vocab_size", shape.vocabulary);
  if (shape.experts.count > 0) {
    set("expert_count", shape.experts.count);
    set("expert_used_count", shape.experts.chosen);
    set("expert_feed_forward_length", shape.experts.width);
  }
  if (shape.gemma4) {
    put_gemma4_gguf_config(shape, writer);
  } else {
    if (shape.ffn_width > 0) set("feed_forward_length", shape.ffn_width);
    set("attention.head_count_kv", shape.kv_heads);
    set("attention.key_length", shape.head_dim);
    set("attention.value_length", shape.head_dim);
    if (shape.qwen3_5) {
      put_qwen3_5_gguf_config(shape, writer);
    } else {
      set("rope.dimension_count", shape.head_dim);
    }
  }
  writer.set_u32("general.quantization_version", 2);
  writer.set_u32("general.file_type", gguf_file_type(format));
}

std::vector<float> rope_divisors(const SynthShape& shape) {
  if (shape.gemma4) return gemma4_rope_divisors(shape);
  RAFTER_CHECK(shape.rope_scaling.has_value());
  const Llama3Scaling& scaling = *shape.rope_scaling;
  std::vector<float> divisors;
  for (int64_t i = 0; i < shape.head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(shape.head_dim);
    const double turns = static_cast<double>(scaling.original_positions) /
                         (2 * std::numbers::pi * std::pow(shape.rope_theta, exponent));
    const double kept = std::clamp((turns - scaling.low_frequency_factor) /
                                       (scaling.high_frequency_factor - scaling.low_frequency_factor),
                                   0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - kept) / scaling.factor + kept)));
  }
  return divisors;
}

}  // namespace rafter::lab

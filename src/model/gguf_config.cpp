#include "model/gguf_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace rafter::model {

using base::Error;
using base::ErrorCode;

namespace {

class Metadata {
 public:
  explicit Metadata(const format::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  const format::GgufValue* find(const std::string& key) const {
    auto found = checkpoint_.gguf_metadata().find(key);
    return found == checkpoint_.gguf_metadata().end() ? nullptr : &found->second;
  }

  std::optional<std::string> string(const std::string& key) const {
    const format::GgufValue* value = find(key);
    const auto* text = value != nullptr ? std::get_if<std::string>(&value->value) : nullptr;
    return text != nullptr ? std::optional(*text) : std::nullopt;
  }

  // The list under the key, if it is one of integers or booleans.
  std::optional<std::vector<int64_t>> list(const std::string& key) const {
    const format::GgufValue* value = find(key);
    const auto* stored = value != nullptr ? std::get_if<format::GgufArray>(&value->value) : nullptr;
    constexpr uint64_t kMostLayers = 4096;
    if (stored == nullptr || !stored->is_integer() || stored->count > kMostLayers) return std::nullopt;
    std::vector<int64_t> values;
    for (uint64_t i = 0; i < stored->count; ++i) values.push_back(stored->integer(i));
    return values;
  }

  // Any integer type whose value fits: writers differ. A list, one entry a layer, if all are the same.
  std::optional<int64_t> integer(const std::string& key) const {
    const format::GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* list = std::get_if<format::GgufArray>(&value->value)) {
      if (list->count == 0 || !list->is_integer()) return std::nullopt;
      for (uint64_t i = 1; i < list->count; ++i) {
        if (list->integer(i) != list->integer(0)) return std::nullopt;
      }
      return list->integer(0);
    }
    if (const auto* i = std::get_if<int64_t>(&value->value)) return *i;
    if (const auto* u = std::get_if<uint64_t>(&value->value); u != nullptr && *u < 1ull << 62) {
      return static_cast<int64_t>(*u);
    }
    return std::nullopt;
  }

  std::optional<double> number(const std::string& key) const {
    const format::GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* d = std::get_if<double>(&value->value); d != nullptr && std::isfinite(*d)) return *d;
    if (auto i = integer(key)) return static_cast<double>(*i);
    return std::nullopt;
  }

 private:
  const format::Checkpoint& checkpoint_;
};

// A float32 of the file as the shortest decimal that names it, so that 1e-5f reads as 1e-05 and
// not 9.99999974e-06.
double shortest(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

// Which layers slide, from a list or a period.
void read_sliding_pattern(const Metadata& metadata, const std::string& key, nlohmann::json& config) {
  if (const auto pattern = metadata.list(key)) {
    nlohmann::json types = nlohmann::json::array();
    for (int64_t slides : *pattern) types.push_back(slides != 0 ? "sliding_attention" : "full_attention");
    config["layer_types"] = std::move(types);
  } else if (const auto period = metadata.integer(key)) {
    config["sliding_window_pattern"] = *period;
  }
}

// Gemma 4's keys differ between its two kinds of layers: what has no suffix is that of the full ones.
void read_gemma4(const Metadata& metadata, const std::string& prefix, nlohmann::json& config) {
  config.erase("rotary_dims");
  config["global_head_dim"] = config["head_dim"];
  if (const auto length = metadata.integer(prefix + "attention.key_length_swa")) config["head_dim"] = *length;
  config["num_kv_shared_layers"] = metadata.integer(prefix + "attention.shared_kv_layers").value_or(0);
  config["hidden_size_per_layer_input"] =
      metadata.integer(prefix + "embedding_length_per_layer_input").value_or(0);
  for (const char* key : {"num_key_value_heads", "intermediate_size"}) {
    const bool is_width = std::string(key) == "intermediate_size";
    if (const auto list =
            metadata.list(prefix + (is_width ? "feed_forward_length" : "attention.head_count_kv")))
      config[key] = *list;
  }
  config["enable_moe_block"] = config.value("num_experts", 0) > 0;
  if (config.contains("num_experts_per_tok")) config["top_k_experts"] = config["num_experts_per_tok"];
  // Which pairs turn in full layers is in the tensor rope_freqs.
  const double theta = metadata.number(prefix + "rope.freq_base_swa").value_or(10000.0);
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", config["rope_theta"]}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", shortest(theta)}}}};
}

}  // namespace

base::Result<std::string> gguf_config_json(const format::Checkpoint& checkpoint) {
  const Metadata metadata(checkpoint);
  const std::optional<std::string> architecture = metadata.string("general.architecture");
  if (!architecture) {
    return Error{ErrorCode::invalid_data, "the key is missing or not a string",
                 checkpoint.path() + ": general.architecture",
                 "this GGUF file does not hold a language model"};
  }
  if (const std::string type = metadata.string("general.type").value_or("model"); type != "model") {
    return Error{ErrorCode::unsupported, fmt::format("the file holds a {}, not a whole model", type),
                 checkpoint.path() + ": general.type", "give the file of the model itself"};
  }
  nlohmann::json config;
  config["model_type"] = *architecture;

  struct Key {
    const char* gguf;
    const char* config;
    bool required;
  };
  static constexpr Key kIntegers[] = {
      {"block_count", "num_hidden_layers", true},
      {"context_length", "max_position_embeddings", true},
      {"embedding_length", "hidden_size", true},
      {"feed_forward_length", "intermediate_size", false},  // a mixture may have nothing else
      {"attention.head_count", "num_attention_heads", true},
      {"attention.head_count_kv", "num_key_value_heads", false},
      {"attention.key_length", "head_dim", false},
      {"rope.dimension_count", "rotary_dims", false},
      {"vocab_size", "vocab_size", false},
      {"attention.sliding_window", "sliding_window", false},
      {"expert_count", "num_experts", false},
      {"expert_used_count", "num_experts_per_tok", false},
      {"expert_feed_forward_length", "moe_intermediate_size", false},
      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false},
      {"full_attention_interval", "full_attention_interval", false},
      {"ssm.conv_kernel", "linear_conv_kernel_dim", false},
      {"ssm.state_size", "linear_key_head_dim", false},
      {"ssm.group_count", "linear_num_key_heads", false},
      {"ssm.time_step_rank", "linear_num_value_heads", false},
  };
  for (const Key& key : kIntegers) {
    const std::string name = *architecture + "." + key.gguf;
    if (auto value = metadata.integer(name)) {
      config[key.config] = *value;
    } else if (*architecture == "gemma4" && metadata.list(name)) {
      continue;  // read_gemma4 takes it
    } else if (key.required || metadata.find(name) != nullptr) {
      const format::GgufValue* stored = metadata.find(name);
      const bool list = stored != nullptr && std::holds_alternative<format::GgufArray>(stored->value);
      return Error{list ? ErrorCode::unsupported : ErrorCode::invalid_data,
                   list ? "values that differ from layer to layer are not supported"
                        : "the key is missing or not an integer",
                   checkpoint.path() + ": " + name, ""};
    }
  }
  const std::string value_length = *architecture + ".attention.value_length";
  if (auto length = metadata.integer(value_length); length && *length != config.value("head_dim", *length)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("heads with values of {} but keys of {} are not supported", *length,
                             config["head_dim"].get<int64_t>()),
                 checkpoint.path() + ": " + value_length, ""};
  }
  if (const auto inner = metadata.integer(*architecture + ".ssm.inner_size")) {
    const int64_t heads = metadata.integer(*architecture + ".ssm.time_step_rank").value_or(0);
    if (heads > 0 && *inner % heads == 0) config["linear_value_head_dim"] = *inner / heads;
  }
  if (const auto extra = metadata.integer(*architecture + ".nextn_predict_layers")) {  // behind the layers
    const int64_t blocks = config["num_hidden_layers"];
    if (*extra > 0 && *extra < blocks) config["num_hidden_layers"] = blocks - *extra;
  }
  const std::string epsilon = *architecture + ".attention.layer_norm_rms_epsilon";
  if (auto value = metadata.number(epsilon)) {
    config["rms_norm_eps"] = shortest(*value);
  } else {
    return Error{ErrorCode::invalid_data, "the key is missing or not a number",
                 checkpoint.path() + ": " + epsilon, ""};
  }
  config["rope_theta"] = shortest(metadata.number(*architecture + ".rope.freq_base").value_or(10000.0));

  const std::string scaling = *architecture + ".rope.scaling.";
  // longrope has no name of its own: its factors are tensors.
  const bool is_longrope = checkpoint.has("rope_factors_long.weight");
  const std::string type = is_longrope ? "longrope" : metadata.string(scaling + "type").value_or("none");
  if (type != "none") {
    nlohmann::json rope = {{"rope_type", type}};
    if (auto factor = metadata.number(scaling + "factor")) rope["factor"] = *factor;
    if (auto length = metadata.integer(scaling + "original_context_length")) {
      rope["original_max_position_embeddings"] = *length;
    }
    if (auto factor = metadata.number(scaling + "attn_factor")) rope["attention_factor"] = *factor;
    config["rope_scaling"] = rope;
  }
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (auto value = metadata.number(*architecture + "." + cap)) config[cap] = shortest(*value);
  }
  read_sliding_pattern(metadata, *architecture + ".attention.sliding_window_pattern", config);
  if (*architecture == "gemma4") read_gemma4(metadata, *architecture + ".", config);
  return config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rafter::model

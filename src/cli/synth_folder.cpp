#include <cmath>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "cli/random_weights.h"
#include "cli/synth_tokenizer.h"
#include "cli/synth_writer.h"
#include "format/safetensors_writer.h"

namespace rafter::cli {
namespace {

using Json = nlohmann::ordered_json;
using tensor::DType;
using tensor::FormatKind;

constexpr int64_t kShardBytes = 5ll << 30;  // where mlx-lm and transformers cut too

bool is_affine(const SynthTensor& tensor) {
  return tensor.is_matrix() && tensor.format.kind == FormatKind::affine;
}

int64_t bytes_of(const SynthTensor& tensor) {
  return tensor.is_matrix() ? tensor.format.matrix_bytes(tensor.rows, tensor.columns)
                            : tensor.rows * tensor::dtype_bytes(DType::bf16);
}

std::vector<std::vector<SynthTensor>> cut_into_shards(const std::vector<SynthTensor>& tensors) {
  std::vector<std::vector<SynthTensor>> shards(1);
  int64_t bytes = 0;
  for (const SynthTensor& tensor : tensors) {
    if (bytes > 0 && bytes + bytes_of(tensor) > kShardBytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += bytes_of(tensor);
    shards.back().push_back(tensor);
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

base::Status declare(format::SafetensorsWriter& writer, const SynthTensor& tensor) {
  const std::string& module = tensor.hf_module;
  if (!tensor.is_matrix()) return writer.declare(module + ".weight", DType::bf16, {tensor.rows});
  if (!is_affine(tensor))
    return writer.declare(module + ".weight", DType::bf16, {tensor.rows, tensor.columns});
  const int64_t words = tensor.columns * tensor.format.bits / 32,
                groups = tensor.columns / tensor.format.group;
  RAFTER_TRY(writer.declare(module + ".weight", DType::u32, {tensor.rows, words}));
  RAFTER_TRY(writer.declare(module + ".scales", DType::bf16, {tensor.rows, groups}));
  return writer.declare(module + ".biases", DType::bf16, {tensor.rows, groups});
}

base::Status write_shard(const SynthJob& job, const std::string& file,
                         const std::vector<SynthTensor>& tensors) {
  const bool mlx = job.scheme->matrices.kind == FormatKind::affine;
  format::SafetensorsWriter writer(job.folder + "/" + file, {{"format", mlx ? "mlx" : "pt"}});
  for (const SynthTensor& tensor : tensors) RAFTER_TRY(declare(writer, tensor));
  RAFTER_TRY(writer.begin());
  const auto sink_of = [&](std::string name) -> ByteSink {
    return [&, name](std::span<const std::byte> bytes) -> base::Status {
      RAFTER_TRY(writer.append(name, bytes));
      return job.on_progress(static_cast<int64_t>(bytes.size()));
    };
  };
  for (const SynthTensor& tensor : tensors) {
    const std::string& module = tensor.hf_module;
    const uint64_t seed = tensor_seed(job.seed, module);
    const MatrixSinks sinks{sink_of(module + ".weight"), sink_of(module + ".scales"),
                            sink_of(module + ".biases")};
    if (tensor.is_matrix()) {
      const double deviation = 1 / std::sqrt(static_cast<double>(tensor.columns));
      RAFTER_TRY(write_random_matrix(tensor.format, tensor.rows, tensor.columns, deviation, seed, sinks));
    } else {
      RAFTER_TRY(write_random_norm(DType::bf16, tensor.rows, seed, sinks.data));
    }
  }
  return writer.finish_blocking();
}

std::string index_json(const std::vector<std::vector<SynthTensor>>& shards) {
  Json map = Json::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const SynthTensor& tensor : shards[i]) {
      total += bytes_of(tensor);
      map[tensor.hf_module + ".weight"] = shard_name(i, shards.size());
      if (!is_affine(tensor)) continue;
      map[tensor.hf_module + ".scales"] = shard_name(i, shards.size());
      map[tensor.hf_module + ".biases"] = shard_name(i, shards.size());
    }
  }
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

// The scheme's default and, for every matrix that differs from it, an entry by module path.
Json quantization_block(const SynthScheme& scheme, const std::vector<SynthTensor>& tensors) {
  Json block = {{"group_size", scheme.matrices.group}, {"bits", scheme.matrices.bits}, {"mode", "affine"}};
  for (const SynthTensor& tensor : tensors) {
    if (!is_affine(tensor) || tensor.format == scheme.matrices) continue;
    block[tensor.hf_module] = {{"group_size", tensor.format.group}, {"bits", tensor.format.bits}};
  }
  return block;
}

std::string config_json(const SynthJob& job, const std::vector<SynthTensor>& tensors) {
  const SynthShape& shape = *job.shape;
  Json json = {{"architectures", {shape.class_name}},
               {"attention_bias", false},
               {"attention_dropout", 0.0},
               {"bos_token_id", shape.bos},
               {"eos_token_id", shape.eos},
               {"head_dim", shape.head_dim},
               {"hidden_act", "silu"},
               {"hidden_size", shape.width},
               {"initializer_range", 0.02},
               {"intermediate_size", shape.feed_forward},
               {"max_position_embeddings", shape.max_positions},
               {"mlp_bias", false},
               {"model_type", shape.model_type},
               {"num_attention_heads", shape.heads},
               {"num_hidden_layers", shape.layers},
               {"num_key_value_heads", shape.kv_heads},
               {"rms_norm_eps", shape.norm_epsilon},
               {"rope_scaling", nullptr},
               {"rope_theta", shape.rope_theta},
               {"tie_word_embeddings", shape.tied_head},
               {"torch_dtype", "bfloat16"},
               {"use_cache", true},
               {"vocab_size", shape.vocabulary}};
  if (shape.rope_scaling) {
    json["rope_scaling"] = {{"factor", shape.rope_scaling->factor},
                            {"low_freq_factor", shape.rope_scaling->low_frequency_factor},
                            {"high_freq_factor", shape.rope_scaling->high_frequency_factor},
                            {"original_max_position_embeddings", shape.rope_scaling->original_positions},
                            {"rope_type", "llama3"}};
  }
  if (job.scheme->matrices.kind == FormatKind::affine) {
    json["quantization"] = json["quantization_config"] = quantization_block(*job.scheme, tensors);
  }
  return json.dump(2) + "\n";
}

}  // namespace

base::Status write_synth_folder(const SynthJob& job) {
  const std::vector<SynthTensor> tensors = synth_tensors(*job.shape, *job.scheme);
  const auto write_text = [&](const char* name, const std::string& text) {
    return base::write_file_synced(job.folder + "/" + name, std::as_bytes(std::span(text)));
  };
  const auto shards = cut_into_shards(tensors);
  for (size_t i = 0; i < shards.size(); ++i)
    RAFTER_TRY(write_shard(job, shard_name(i, shards.size()), shards[i]));
  if (shards.size() > 1) RAFTER_TRY(write_text("model.safetensors.index.json", index_json(shards)));
  const SynthTokenizer tokenizer = synth_tokenizer(*job.shape);
  RAFTER_TRY(write_text("tokenizer.json", synth_tokenizer_json(*job.shape, tokenizer)));
  RAFTER_TRY(write_text("tokenizer_config.json", synth_tokenizer_config_json(*job.shape, tokenizer)));
  RAFTER_TRY(write_text("chat_template.jinja", synth_chat_template(tokenizer)));
  RAFTER_TRY(write_text("generation_config.json", synth_generation_config_json(*job.shape)));
  return write_text("config.json", config_json(job, tensors));
}

}  // namespace rafter::cli

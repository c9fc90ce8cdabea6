#include <cmath>
#include <numbers>

#include "cli/random_weights.h"
#include "cli/synth_tokenizer.h"
#include "cli/synth_writer.h"
#include "format/gguf_writer.h"

namespace rafter::cli {
namespace {

using tensor::DType;
using tensor::NumberFormat;

constexpr int32_t kNormalToken = 1, kControlToken = 3;

// Llama 3's frequency scaling has no metadata of its own: pair i turns slower by the i-th element of
// rope_freqs.weight.
std::vector<float> rope_factors(const SynthShape& shape) {
  const Llama3Scaling& scaling = *shape.rope_scaling;
  const double original = static_cast<double>(scaling.original_positions);
  const double longest = original / scaling.low_frequency_factor,
               shortest = original / scaling.high_frequency_factor;
  std::vector<float> factors;
  for (int64_t i = 0; i < shape.head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(shape.head_dim);
    const double wavelength = 2 * std::numbers::pi * std::pow(shape.rope_theta, exponent);
    double factor = 1;
    if (wavelength > longest) {
      factor = scaling.factor;
    } else if (wavelength > shortest) {
      const double smooth = (original / wavelength - scaling.low_frequency_factor) /
                            (scaling.high_frequency_factor - scaling.low_frequency_factor);
      factor = 1 / ((1 - smooth) / scaling.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

void set_model_metadata(format::GgufWriter& writer, const SynthShape& shape) {
  const std::string prefix = std::string(shape.model_type) + ".";
  const auto set_count = [&](const char* key, int64_t value) {
    writer.set_u32(prefix + key, static_cast<uint32_t>(value));
  };
  writer.set_string("general.architecture", shape.model_type);
  writer.set_string("general.name", shape.name);
  set_count("block_count", shape.layers);
  set_count("context_length", shape.max_positions);
  set_count("embedding_length", shape.width);
  set_count("feed_forward_length", shape.feed_forward);
  set_count("attention.head_count", shape.heads);
  set_count("attention.head_count_kv", shape.kv_heads);
  set_count("attention.key_length", shape.head_dim);
  set_count("attention.value_length", shape.head_dim);
  writer.set_f32(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(shape.norm_epsilon));
  writer.set_f32(prefix + "rope.freq_base", static_cast<float>(shape.rope_theta));
  set_count("rope.dimension_count", shape.head_dim);
  set_count("vocab_size", shape.vocabulary);
}

void set_tokenizer_metadata(format::GgufWriter& writer, const SynthShape& shape) {
  const SynthTokenizer tokenizer = synth_tokenizer(shape);
  std::vector<int32_t> types(tokenizer.pieces.size(), kNormalToken);
  for (int32_t id : tokenizer.markers) types[static_cast<size_t>(id)] = kControlToken;
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", shape.pre_tokenizer);
  writer.set_strings("tokenizer.ggml.tokens", tokenizer.pieces);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_strings("tokenizer.ggml.merges", {});
  writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(shape.bos));
  writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(shape.eos));
  writer.set_u32("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(shape.turn_end));
  writer.set_bool("tokenizer.ggml.add_bos_token", shape.adds_bos);
  writer.set_string("tokenizer.chat_template", synth_chat_template(tokenizer));
}

}  // namespace

base::Status write_synth_gguf(const SynthJob& job) {
  const SynthShape& shape = *job.shape;
  const NumberFormat f32 = NumberFormat::plain(DType::f32);
  const std::vector<SynthTensor> tensors = synth_tensors(shape, *job.scheme);
  format::GgufWriter writer(job.folder + "/" + synth_gguf_name(job));
  set_model_metadata(writer, shape);
  set_tokenizer_metadata(writer, shape);
  if (shape.rope_scaling) RAFTER_TRY(writer.declare("rope_freqs.weight", f32, {shape.head_dim / 2}));
  for (const SynthTensor& tensor : tensors) {
    const std::string name = tensor.gguf_name + ".weight";
    RAFTER_TRY(tensor.is_matrix() ? writer.declare(name, tensor.format, {tensor.rows, tensor.columns})
                                  : writer.declare(name, f32, {tensor.rows}));
  }
  RAFTER_TRY(writer.begin());
  if (shape.rope_scaling) {
    const std::vector<float> factors = rope_factors(shape);
    RAFTER_TRY(writer.append("rope_freqs.weight", std::as_bytes(std::span(factors))));
  }
  for (const SynthTensor& tensor : tensors) {
    const std::string name = tensor.gguf_name + ".weight";
    const ByteSink sink = [&](std::span<const std::byte> bytes) -> base::Status {
      RAFTER_TRY(writer.append(name, bytes));
      return job.on_progress(static_cast<int64_t>(bytes.size()));
    };
    const uint64_t seed = tensor_seed(job.seed, tensor.hf_module);
    if (tensor.is_matrix()) {
      const double deviation = 1 / std::sqrt(static_cast<double>(tensor.columns));
      RAFTER_TRY(
          write_random_matrix(tensor.format, tensor.rows, tensor.columns, deviation, seed, {sink, {}, {}}));
    } else {
      RAFTER_TRY(write_random_norm(DType::f32, tensor.rows, seed, sink));
    }
  }
  return writer.finish_blocking();
}

}  // namespace rafter::cli

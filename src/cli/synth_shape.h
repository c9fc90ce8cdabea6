// The models `rafter synth` can imitate: their sizes, and how their weights are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/number_format.h"

namespace rafter::cli {

struct Llama3Scaling {
  double factor, low_frequency_factor, high_frequency_factor;
  int64_t original_positions;
};

struct SynthShape {
  const char* name;
  const char* model_type;     // of config.json; the GGUF architecture too
  const char* class_name;     // of config.json's "architectures"
  const char* pre_tokenizer;  // tokenizer.ggml.pre
  int64_t layers, width, feed_forward, heads, kv_heads, head_dim, vocabulary;
  double norm_epsilon, rope_theta;
  int64_t max_positions;
  bool tied_head;  // the embedding is the head
  bool qk_norm;
  std::optional<Llama3Scaling> rope_scaling;
  bool adds_bos;
  int32_t bos, eos, turn_start, turn_end;  // token ids
};

std::span<const SynthShape> synth_shapes();
// Error (not_found): lists the names.
base::Result<const SynthShape*> find_synth_shape(const std::string& name);

enum class SynthContainer { safetensors, gguf };

// How a checkpoint's matrices are stored. Norms are bf16 in safetensors and f32 in GGUF.
struct SynthScheme {
  const char* name;
  SynthContainer container;
  tensor::NumberFormat matrices;
  tensor::NumberFormat heads;         // the output head and the embedding
  tensor::NumberFormat outer_layers;  // the first and the last layer
};

std::span<const SynthScheme> synth_schemes();
base::Result<const SynthScheme*> find_synth_scheme(const std::string& name);

// One tensor of the checkpoint: a matrix [rows, columns], or a vector [rows] (columns 0).
struct SynthTensor {
  std::string hf_module, gguf_name;  // "model.layers.0.mlp.up_proj", "blk.0.ffn_up"; ".weight" follows
  int64_t rows = 0, columns = 0;
  tensor::NumberFormat format;  // of a matrix

  bool is_matrix() const { return columns > 0; }
};

// Every tensor of the shape in the order of the forward pass.
std::vector<SynthTensor> synth_tensors(const SynthShape& shape, const SynthScheme& scheme);

}  // namespace rafter::cli

// The models that `rafter synth` can imitate: their sizes and their special tokens, one table row each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::lab {

// A token outside the byte pieces, at the id that it has in the real model.
struct SynthMarker {
  int32_t id;
  std::string text;
  bool special = true;  // hidden when text is shown; false: "<think>" and its kind
};

struct SynthTokens {
  std::vector<SynthMarker> markers;
  int32_t bos, eos, pad;       // eos ends a document or a turn: the tokenizer's own
  std::vector<int32_t> stops;  // generation_config.json's eos_token_id
  bool adds_bos;               // a raw prompt begins with bos
  std::string chat_template;
};

// Llama 3's frequency scaling.
struct Llama3Scaling {
  double factor, low_frequency_factor, high_frequency_factor;
  int64_t original_positions;
};

// generation_config.json's defaults; 0: the file does not say.
struct SynthSampling {
  double temperature = 0, top_p = 0;
  int64_t top_k = 0;
};

// A dense pre-norm transformer.
struct SynthShape {
  std::string name;        // on the command line
  std::string real_name;   // of the model that has this shape
  std::string model_type;  // config.json's, and the GGUF architecture
  std::string class_name;  // config.json's "architectures"
  int64_t layers, width, ffn_width, heads, kv_heads, head_dim, vocabulary;
  double norm_epsilon, rope_theta;
  std::optional<Llama3Scaling> rope_scaling;
  int64_t max_positions;
  bool tied_head;  // the embedding is the head
  bool qk_norm;    // a norm over each head of q and k
  SynthTokens tokens;
  SynthSampling sampling;
};

std::span<const SynthShape> synth_shapes();

// Error (invalid_argument): no such shape; the names are listed.
base::Result<const SynthShape*> find_synth_shape(const std::string& name);

}  // namespace rafter::lab

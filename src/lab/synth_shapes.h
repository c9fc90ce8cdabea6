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

// A mixture of experts; 0 of them: none.
struct SynthExperts {
  int64_t count = 0, chosen = 0;
  int64_t width = 0;         // of each one's feed-forward
  int64_t shared_width = 0;  // of the one that every token visits (Qwen3.5)
};

// What Gemma 4 has beside a dense transformer's sizes, which are those of its sliding layers.
struct SynthGemma4 {
  int64_t window;                // positions that a sliding layer sees
  int64_t period;                // every period-th layer is full
  int64_t full_head_dim;         // of full layers
  int64_t full_kv_heads;         // of full layers
  bool keys_are_values = false;  // in full layers
  int64_t shared_layers = 0;     // the last ones, without keys and values of their own
  bool double_wide = false;      // their feed-forward
  int64_t layer_input = 0;       // width of each layer's own input; 0: none
  bool unified = false;          // how config.json spells the model's type
};

// What Qwen3.5 has beside a dense transformer's sizes, which are those of its full layers.
struct SynthQwen35 {
  int64_t period;  // every period-th layer attends, the others are delta nets
  int64_t key_heads, value_heads, key_dim, value_dim, taps;
};

// A pre-norm transformer: dense, or with the parts above.
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
  SynthExperts experts = {};
  std::optional<SynthGemma4> gemma4 = std::nullopt;
  std::optional<SynthQwen35> qwen3_5 = std::nullopt;

  // Whether layer `l` sees every position.
  bool attends_to_all(int64_t l) const {
    const int64_t period = gemma4 ? gemma4->period : qwen3_5 ? qwen3_5->period : 1;
    return (l + 1) % period == 0;
  }
};

std::span<const SynthShape> synth_shapes();

// The rows of one family each, for synth_shapes().
std::vector<SynthShape> gemma4_synth_shapes();
std::vector<SynthShape> qwen3_5_synth_shapes();

// Error (invalid_argument): no such shape; the names are listed.
base::Result<const SynthShape*> find_synth_shape(const std::string& name);

}  // namespace rafter::lab

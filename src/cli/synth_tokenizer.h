// The tokenizer of a synthetic checkpoint: the 256 bytes, four markers at the model's own ids, and filler
// everywhere else, so that any text can be asked and any sampled id shows as something.
#pragma once

#include <string>
#include <vector>

#include "cli/synth_shape.h"

namespace rafter::cli {

struct SynthTokenizer {
  std::vector<std::string> pieces;  // [V], in the byte-level alphabet; markers as plain text
  std::vector<int32_t> markers;     // ids, ascending
  std::string bos, eos, turn_start, turn_end;
};

SynthTokenizer synth_tokenizer(const SynthShape& shape);

// ChatML over the tokenizer's markers.
std::string synth_chat_template(const SynthTokenizer& tokenizer);

// The files beside the weights, as text.
std::string synth_tokenizer_json(const SynthShape& shape, const SynthTokenizer& tokenizer);
std::string synth_tokenizer_config_json(const SynthShape& shape, const SynthTokenizer& tokenizer);
std::string synth_generation_config_json(const SynthShape& shape);

}  // namespace rafter::cli

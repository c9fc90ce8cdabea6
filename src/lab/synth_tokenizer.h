// The tokenizer of a synthetic checkpoint: byte-level BPE with a handful of merges, the real model's markers
// at their real ids, and a filler piece at every other id, so that whatever a random model samples is text.
#pragma once

#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "lab/synth_shapes.h"

namespace rafter::lab {

// The piece of every id of the vocabulary, in the byte-level alphabet. The 256 bytes and what the merges make
// take the lowest ids that no marker has; fillers are words (" w301") that no merge leads to.
std::vector<std::string> synth_pieces(const SynthShape& shape);

// The merges, "left right", in order of rank.
std::vector<std::string> synth_merges();

std::string tokenizer_json(const SynthShape& shape);
std::string tokenizer_config_json(const SynthShape& shape);

// The tokenizer.* keys, chat template included.
void put_gguf_tokenizer(const SynthShape& shape, format::GgufWriter& writer);

}  // namespace rafter::lab

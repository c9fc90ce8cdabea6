// The configuration of a synthetic checkpoint in both containers' words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "lab/synth_shapes.h"
#include "lab/synth_tensors.h"

namespace rafter::lab {

// `tensors`: to name the modules that are stored otherwise than the bulk of them.
std::string config_json(const SynthShape& shape, const SynthFormat& format,
                        std::span<const SynthTensor> tensors);

std::string generation_config_json(const SynthShape& shape);

// Every key but the tokenizer's.
void put_gguf_config(const SynthShape& shape, const SynthFormat& format, format::GgufWriter& writer);

// What Llama 3's scaling divides the base frequencies by, [head_dim / 2]: GGUF's `rope_freqs`.
std::vector<float> rope_divisors(const SynthShape& shape);

}  // namespace rafter::lab

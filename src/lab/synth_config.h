// The configuration of a synthetic checkpoint in both containers' words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
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

// GGUF's `rope_freqs`, [head_dim / 2]: what Llama 3's scaling divides the base frequencies by; for Gemma 4's
// full layers 1, and 1e30 for the pairs that do not turn.
std::vector<float> rope_divisors(const SynthShape& shape);

// general.architecture.
std::string gguf_architecture(const SynthShape& shape);

// What one family's config.json and GGUF metadata say beyond, or instead of, what every family's say:
// `text` is the language model's part of a config.json.
void add_gemma4_config(const SynthShape& shape, nlohmann::json& text);
void add_qwen3_5_config(const SynthShape& shape, nlohmann::json& text);
void put_gemma4_gguf_config(const SynthShape& shape, format::GgufWriter& writer);
void put_qwen3_5_gguf_config(const SynthShape& shape, format::GgufWriter& writer);
std::vector<float> gemma4_rope_divisors(const SynthShape& shape);

}  // namespace rafter::lab

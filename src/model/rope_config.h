// Rotary frequencies from a configuration: default, linear, llama3 and yarn scaling, and
// GGUF's rope_freqs tensor.
#pragma once

#include <vector>

#include "model/config.h"
#include "plan/emitter.h"

namespace rafter::model {

// A Rope and the frequencies it points at.
struct RopeTable {
  std::vector<float> frequencies;  // [rotated_dims / 2]
  plan::Rope rope;                 // rope.frequencies is null: see pointed()

  plan::Rope pointed() const {
    plan::Rope result = rope;
    result.frequencies = frequencies.data();
    return result;
  }
};

// `default_theta`: the family's base when the config names none (no value: the key is required).
// Errors: unsupported (a scaling type without an implementation, by name), invalid_data.
base::Result<RopeTable> make_rope(const Config& config, int64_t head_dim,
                                  std::optional<double> default_theta);

}  // namespace rafter::model

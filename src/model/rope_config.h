// Rotary frequencies from a configuration: default, linear, llama3, yarn, longrope and proportional, and
// GGUF's rope_freqs and rope_factors tensors.
#pragma once

#include <vector>

#include "model/config.h"
#include "plan/emitter.h"

namespace rafter::model {

// A Rope and the frequencies it points at.
//
// longrope has two sets: `frequencies` for contexts longer than `original_positions`, and others up to there.
// transformers takes the set by the length of the whole sequence, whose end a row does not know; here the
// most positions that a sequence may have decide, so that a row's rotation never changes.
struct RopeTable {
  std::vector<float> frequencies;        // [rotated_dims / 2]
  std::vector<float> short_frequencies;  // longrope only: the same size
  int64_t original_positions = 0;        // longrope only
  plan::Rope rope;                       // rope.frequencies is null: see pointed()

  // `context`: the most positions of a sequence; 0: not known, as many as the model has.
  plan::Rope pointed(int64_t context) const {
    const bool is_short = !short_frequencies.empty() && context > 0 && context <= original_positions;
    plan::Rope result = rope;
    result.frequencies = (is_short ? short_frequencies : frequencies).data();
    return result;
  }

  // Divides the base frequencies by longrope's factors, [rotated_dims / 2] each.
  void set_longrope(const std::vector<double>& long_factors, const std::vector<double>& short_factors);
};

// From the keys of `scaling` (type or rope_type, and what that type has), over the whole model's `config`.
// Errors: unsupported (a scaling type without an implementation, by name), invalid_data.
base::Result<RopeTable> make_rope_table(const Config& config, const Config& scaling, double theta,
                                        int64_t head_dim);

// The same with the keys where most configs have them, the same for all layers.
// `default_theta`: the family's base when the config names none (no value: the key is required).
// Errors: unsupported (a scaling type without an implementation, by name), invalid_data.
base::Result<RopeTable> make_rope(const Config& config, int64_t head_dim,
                                  std::optional<double> default_theta);

}  // namespace rafter::model

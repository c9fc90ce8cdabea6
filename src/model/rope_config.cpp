#include "model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rafter::model {

using base::Error;
using base::ErrorCode;

namespace {

// λ > L0/lf → ω/f;  λ < L0/hf → ω;  between, a blend of the two by how many turns fit into L0.
base::Status scale_llama3(const Config& scaling, std::vector<float>& frequencies) {
  RAFTER_ASSIGN(const double factor, scaling.number("factor"));
  RAFTER_ASSIGN(const double low, scaling.number("low_freq_factor", 1.0));
  RAFTER_ASSIGN(const double high, scaling.number("high_freq_factor", 4.0));
  RAFTER_ASSIGN(const double original, scaling.number("original_max_position_embeddings", 8192.0));
  if (factor <= 0 || high <= low || original <= 0) {
    return Error{ErrorCode::invalid_data,
                 "llama3 scaling needs factor > 0 and high_freq_factor > low_freq_factor", scaling.where(),
                 ""};
  }
  for (float& frequency : frequencies) {
    const double omega = frequency;
    const double wavelength = 2 * std::numbers::pi / omega;
    if (wavelength > original / low) {
      frequency = static_cast<float>(omega / factor);
    } else if (wavelength > original / high) {
      const double t = (original / wavelength - low) / (high - low);
      frequency = static_cast<float>((1 - t) * omega / factor + t * omega);
    }
  }
  return {};
}

// A ramp over the dims: the fast ones keep their frequency, the slow ones are divided by the factor.
base::Status scale_yarn(const Config& config, const Config& scaling, double theta, RopeTable& table) {
  RAFTER_ASSIGN(const int64_t context, config.integer("max_position_embeddings", 0));
  RAFTER_ASSIGN(const double original, scaling.number("original_max_position_embeddings",
                                                      context > 0 ? static_cast<double>(context) : 4096.0));
  RAFTER_ASSIGN(const double factor, scaling.number("factor"));
  RAFTER_ASSIGN(const double beta_fast, scaling.number("beta_fast", 32.0));
  RAFTER_ASSIGN(const double beta_slow, scaling.number("beta_slow", 1.0));
  RAFTER_ASSIGN(const double mscale, scaling.number("mscale", 1.0));
  RAFTER_ASSIGN(const double mscale_all_dim, scaling.number("mscale_all_dim", 0.0));
  RAFTER_ASSIGN(const bool truncate, scaling.boolean("truncate", true));
  if (factor <= 0 || original <= 0 || theta <= 1 || beta_fast <= 0 || beta_slow <= 0) {
    return Error{ErrorCode::invalid_data,
                 "yarn scaling needs a positive factor, context and betas, and rope_theta > 1",
                 scaling.where(), ""};
  }
  const double dims = table.rope.rotated_dims;
  auto correction = [&](double beta) {
    return dims * std::log(original / (beta * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = correction(beta_fast), high = correction(beta_slow);
  if (truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < table.frequencies.size(); ++i) {
    const double kept = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double omega = table.frequencies[i];
    table.frequencies[i] = static_cast<float>(omega / factor * (1 - kept) + omega * kept);
  }
  auto magnitude = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1; };
  const double ratio =
      mscale != 0 && mscale_all_dim != 0 ? magnitude(mscale) / magnitude(mscale_all_dim) : magnitude(1);
  RAFTER_ASSIGN(const double attention_factor, scaling.number("attention_factor", ratio));
  table.rope.magnitude = static_cast<float>(attention_factor);
  return {};
}

// Sets of factors per pair, and a magnitude by how much longer than the original the model's context is. A
// GGUF file holds the factors as tensors: the caller applies those.
base::Status scale_longrope(const Config& config, const Config& scaling, RopeTable& table) {
  RAFTER_ASSIGN(const int64_t longest, config.integer("max_position_embeddings"));
  const Config& where = scaling.has("original_max_position_embeddings") ? scaling : config;
  RAFTER_ASSIGN(table.original_positions, where.integer("original_max_position_embeddings", longest));
  RAFTER_ASSIGN(const std::vector<double> long_factors, scaling.numbers("long_factor"));
  RAFTER_ASSIGN(const std::vector<double> short_factors, scaling.numbers("short_factor"));
  const size_t pairs = table.frequencies.size();
  const auto is_wrong = [&](const std::vector<double>& factors) {
    return factors.size() != pairs ||
           !std::all_of(factors.begin(), factors.end(), [](double factor) { return factor > 0; });
  };
  if (table.original_positions < 2 || longest < 1 ||
      (!config.from_gguf() && (is_wrong(long_factors) || is_wrong(short_factors)))) {
    return Error{
        ErrorCode::invalid_data,
        fmt::format("longrope scaling needs an original context and {} positive long and short factors",
                    pairs),
        scaling.where(), ""};
  }
  if (!config.from_gguf()) table.set_longrope(long_factors, short_factors);
  const double ratio = static_cast<double>(longest) / static_cast<double>(table.original_positions);
  const double magnitude =
      ratio <= 1 ? 1.0
                 : std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(table.original_positions)));
  RAFTER_ASSIGN(const double attention_factor, scaling.number("attention_factor", magnitude));
  table.rope.magnitude = static_cast<float>(attention_factor);
  return {};
}

}  // namespace

void RopeTable::set_longrope(const std::vector<double>& long_factors,
                             const std::vector<double>& short_factors) {
  short_frequencies = frequencies;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = static_cast<float>(frequencies[i] / long_factors[i]);
    short_frequencies[i] = static_cast<float>(short_frequencies[i] / short_factors[i]);
  }
}

base::Result<RopeTable> make_rope(const Config& config, int64_t head_dim,
                                  std::optional<double> default_theta) {
  // Older configs hold rope_theta and rope_scaling, newer ones both in rope_parameters.
  const bool new_style = config.has("rope_parameters");
  RAFTER_ASSIGN(const Config scaling, config.object(new_style ? "rope_parameters" : "rope_scaling"));
  RAFTER_ASSIGN(const double theta, new_style&& scaling.has("rope_theta")
                                        ? scaling.number("rope_theta")
                                        : config.number("rope_theta", default_theta));
  return make_rope_table(config, scaling, theta, head_dim);
}

base::Result<RopeTable> make_rope_table(const Config& config, const Config& scaling, double theta,
                                        int64_t head_dim) {
  RAFTER_ASSIGN(const double partial, scaling.has("partial_rotary_factor")
                                          ? scaling.number("partial_rotary_factor")
                                          : config.number("partial_rotary_factor", 1.0));
  RAFTER_ASSIGN(int64_t rotated,
                config.integer("rotary_dims", static_cast<int64_t>(static_cast<double>(head_dim) *
                                                                   std::clamp(partial, -1.0, 2.0))));
  RAFTER_ASSIGN(const bool adjacent, config.boolean("rope_traditional", false));
  RAFTER_ASSIGN(const std::string old_name, scaling.string("type", std::string("default")));
  RAFTER_ASSIGN(const std::string type, scaling.string("rope_type", old_name));
  // A part of the pairs turns, but they lie as far apart as if all did, and their frequencies are the
  // whole's.
  const bool is_proportional = type == "proportional";
  const int64_t turning_pairs = rotated / 2;
  if (is_proportional) rotated = head_dim;
  if (theta <= 0 || turning_pairs < 1 || rotated < 2 || rotated % 2 != 0 || rotated > head_dim) {
    return Error{ErrorCode::invalid_data,
                 fmt::format("cannot rotate {} of {} dims with a base of {}", rotated, head_dim, theta),
                 config.where(), ""};
  }

  RopeTable table;
  table.rope.head_dim = static_cast<int32_t>(head_dim);
  table.rope.rotated_dims = static_cast<int32_t>(rotated);
  table.rope.layout = adjacent ? kernels::RopeLayout::adjacent : kernels::RopeLayout::half;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    // In fp32, as every framework builds it: the rounding is part of the published models' behaviour.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotated);
    table.frequencies.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }

  if (is_proportional) {
    RAFTER_ASSIGN(const double factor, scaling.number("factor", 1.0));
    if (factor <= 0) return Error{ErrorCode::invalid_data, "factor must be positive", scaling.where(), ""};
    for (int64_t i = 0; i < rotated / 2; ++i) {
      float& frequency = table.frequencies[static_cast<size_t>(i)];
      frequency = i < turning_pairs ? static_cast<float>(frequency / factor) : 0.0f;
    }
    return table;
  }
  if (type == "default" || type == "none" || type == "mrope") return table;
  if (type == "linear") {
    RAFTER_ASSIGN(const double factor, scaling.number("factor"));
    if (factor <= 0) return Error{ErrorCode::invalid_data, "factor must be positive", scaling.where(), ""};
    // Divides the frequencies, as transformers does, not the positions.
    for (float& frequency : table.frequencies) frequency = static_cast<float>(frequency / factor);
    return table;
  }
  if (type == "llama3") {
    RAFTER_TRY(scale_llama3(scaling, table.frequencies));
    return table;
  }
  if (type == "yarn") {
    RAFTER_TRY(scale_yarn(config, scaling, theta, table));
    return table;
  }
  if (type == "longrope" || type == "su") {
    RAFTER_TRY(scale_longrope(config, scaling, table));
    return table;
  }
  return Error{ErrorCode::unsupported, fmt::format("rope scaling \"{}\" is not supported", type),
               scaling.where(), "supported: default, linear, llama3, yarn, longrope, proportional"};
}

}  // namespace rafter::model

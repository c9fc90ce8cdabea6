// The tiny checkpoints and expected values that oracle/generate.py makes, and the metrics that judge against
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rafter::testing {

// One checkpoint of the manifest.
struct OracleCase {
  std::string name;     // "llama-a/hf-bf16"
  std::string path;     // of the checkpoint
  std::string truth;    // of the expected values
  std::string fixture;  // "llama-a"
  std::string family;
  std::string format;  // "bf16", "mlx4", "gguf-q4_0"
};

// Expected values of one checkpoint: see oracle/generate.py. T tokens, V logits each.
struct OracleValues {
  std::vector<int32_t> tokens;  // [T]
  int64_t prompt_length = 0;
  int64_t vocabulary = 0, width = 0;
  std::vector<float> logits, witness;        // [T, V]
  std::vector<float> hidden_in, hidden_out;  // [prompt, D] around layer 0
  std::vector<float> router_margin;          // [T] mixtures only, else empty

  std::span<const float> truth_row(int64_t t) const {
    return {logits.data() + t * vocabulary, size_t(vocabulary)};
  }
  // Whether rounding alone may send this token to other experts: what it then computes is not comparable.
  bool is_router_tie(int64_t t) const {
    constexpr float kLeastMargin = 1e-4f;
    return !router_margin.empty() && router_margin[static_cast<size_t>(t)] < kLeastMargin;
  }
  std::span<const float> witness_row(int64_t t) const {
    return {witness.data() + t * vocabulary, size_t(vocabulary)};
  }
};

// The folder of generated data: RAFTER_ORACLE_DIR, else build/oracle/data under the source tree.
std::string oracle_folder();

// Every checkpoint; empty when the data was not generated (tests then skip, counted). With
// RAFTER_ORACLE_SAMPLE set: the first of each family and format.
const std::vector<OracleCase>& oracle_cases();

// The checkpoint of this name, sampled or not; null when the data was not generated.
const OracleCase* find_oracle_case(std::string_view name);

OracleValues read_values(const OracleCase& oracle_case);

// How far logits are from the truth.
struct LogitError {
  double max_delta = 0;  // max |Δlogit| over all rows
  double max_logit = 0;  // max |logit| of the truth
  double kl_sum = 0;     // Σ over rows of KL(truth ‖ logits)
  int64_t rows = 0;
  int64_t greedy_wrong = 0;   // rows whose argmax differs although the truth's margin exceeds `margin`
  int64_t greedy_judged = 0;  // rows whose margin exceeds it
  bool finite = true;

  double mean_kl() const { return rows > 0 ? kl_sum / static_cast<double>(rows) : 0; }
  void add_row(std::span<const float> truth, std::span<const float> logits, double margin);

  // What is wrong with logits that may be `most_delta` off in any value and `most_kl` in the mean; "" if
  // nothing.
  std::string fault(double most_delta, double most_kl) const;
};

}  // namespace rafter::testing

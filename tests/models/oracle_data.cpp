#include "tests/models/oracle_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "tests/models/tensor_file.h"

namespace rafter::testing {
namespace {

double log_sum_exp(std::span<const float> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}

const std::vector<OracleCase>& all_cases() {
  static const std::vector<OracleCase> cases = [] {
    std::vector<OracleCase> result;
    std::ifstream file(oracle_folder() + "/manifest.json");
    if (!file) return result;
    const nlohmann::json manifest = nlohmann::json::parse(file);
    for (const nlohmann::json& entry : manifest.at("checkpoints")) {
      result.push_back({entry.at("name"), oracle_folder() + "/" + entry.at("path").get<std::string>(),
                        oracle_folder() + "/" + entry.at("truth").get<std::string>(), entry.at("fixture"),
                        entry.at("family"), entry.at("format")});
    }
    return result;
  }();
  return cases;
}

}  // namespace

std::string oracle_folder() {
  if (const char* folder = std::getenv("RAFTER_ORACLE_DIR")) return folder;
  return std::string(RAFTER_SOURCE_DIR) + "/build/oracle/data";
}

const std::vector<OracleCase>& oracle_cases() {
  static const std::vector<OracleCase> cases = [] {
    std::vector<OracleCase> result = all_cases();
    if (std::getenv("RAFTER_ORACLE_SAMPLE") != nullptr) {  // for sanitizer builds, which are slow
      std::set<std::pair<std::string, std::string>> seen;
      std::erase_if(result, [&](const OracleCase& c) { return !seen.insert({c.family, c.format}).second; });
    }
    return result;
  }();
  return cases;
}

const OracleCase* find_oracle_case(std::string_view name) {
  for (const OracleCase& oracle_case : all_cases()) {
    if (oracle_case.name == name) return &oracle_case;
  }
  return nullptr;
}

OracleValues read_values(const OracleCase& oracle_case) {
  const TensorFile file(oracle_case.truth);
  OracleValues values;
  values.tokens = file.read<int32_t>("tokens");
  values.prompt_length = file.read<int32_t>("prompt_len")[0];
  values.logits = file.read<float>("logits", &values.vocabulary);
  values.witness = file.read<float>("witness");
  values.hidden_in = file.read<float>("hidden_in", &values.width);
  values.hidden_out = file.read<float>("hidden_out");
  if (file.has("router_margin")) values.router_margin = file.read<float>("router_margin");
  return values;
}

void LogitError::add_row(std::span<const float> truth, std::span<const float> logits, double margin) {
  RAFTER_CHECK(truth.size() == logits.size(), "{} and {} logits", truth.size(), logits.size());
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!std::isfinite(logits[i])) {  // screened first: no comparison with NaN counts as passed
      finite = false;
      return;
    }
    max_delta = std::max(max_delta, std::abs(static_cast<double>(truth[i]) - logits[i]));
    max_logit = std::max(max_logit, std::abs(static_cast<double>(truth[i])));
  }
  const double truth_norm = log_sum_exp(truth), norm = log_sum_exp(logits);
  for (size_t i = 0; i < truth.size(); ++i) {
    const double log_p = truth[i] - truth_norm;
    kl_sum += std::exp(log_p) * (log_p - (logits[i] - norm));
  }
  ++rows;
  const auto best = std::max_element(truth.begin(), truth.end());
  double second = -INFINITY;
  for (auto it = truth.begin(); it != truth.end(); ++it) {
    if (it != best) second = std::max<double>(second, *it);
  }
  if (*best - second <= margin) return;
  ++greedy_judged;
  if (std::max_element(logits.begin(), logits.end()) - logits.begin() != best - truth.begin()) ++greedy_wrong;
}

std::string LogitError::fault(double most_delta, double most_kl) const {
  if (!finite) return "a logit is not finite";
  if (rows == 0) return "no row was compared";
  if (max_delta > most_delta)
    return fmt::format("a logit is {:.3g} off, {:.3g} is allowed", max_delta, most_delta);
  if (mean_kl() > most_kl) return fmt::format("the mean KL is {:.3g}, {:.3g} is allowed", mean_kl(), most_kl);
  if (greedy_wrong > 0) return fmt::format("{} of {} greedy choices are wrong", greedy_wrong, greedy_judged);
  return "";
}

}  // namespace rafter::testing

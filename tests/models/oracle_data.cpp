#include "tests/models/oracle_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "format/safetensors_header.h"

namespace rafter::testing {
namespace {

template <typename T>
std::vector<T> read_tensor(const base::MappedFile& file, const format::SafetensorsHeader& header,
                           const std::string& name, int64_t* columns = nullptr) {
  for (const format::SafetensorsTensor& tensor : header.tensors) {
    if (tensor.name != name) continue;
    std::vector<T> values((tensor.end - tensor.begin) / sizeof(T));
    std::memcpy(values.data(), file.bytes().data() + header.data_start + tensor.begin,
                tensor.end - tensor.begin);
    if (columns != nullptr) *columns = tensor.shape.back();
    return values;
  }
  RAFTER_CHECK(false, "{} has no {}", file.path(), name);
}

double log_sum_exp(std::span<const float> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}

}  // namespace

std::string oracle_folder() {
  if (const char* folder = std::getenv("RAFTER_ORACLE_DIR")) return folder;
  return std::string(RAFTER_SOURCE_DIR) + "/build/oracle/data";
}

const std::vector<OracleCase>& oracle_cases() {
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
    if (std::getenv("RAFTER_ORACLE_SAMPLE") != nullptr) {  // for sanitizer builds, which are slow
      std::set<std::pair<std::string, std::string>> seen;
      std::erase_if(result, [&](const OracleCase& c) { return !seen.insert({c.family, c.format}).second; });
    }
    return result;
  }();
  return cases;
}

OracleValues read_values(const OracleCase& oracle_case) {
  const base::MappedFile file = base::MappedFile::open(oracle_case.truth).value();
  const format::SafetensorsHeader header =
      format::parse_safetensors_header(file.bytes(), file.path()).value();
  OracleValues values;
  values.tokens = read_tensor<int32_t>(file, header, "tokens");
  values.prompt_length = read_tensor<int32_t>(file, header, "prompt_len")[0];
  values.logits = read_tensor<float>(file, header, "logits", &values.vocabulary);
  values.witness = read_tensor<float>(file, header, "witness");
  values.hidden_in = read_tensor<float>(file, header, "hidden_in", &values.width);
  values.hidden_out = read_tensor<float>(file, header, "hidden_out");
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

}  // namespace rafter::testing

// The cases of tests/data/sampler_vectors.json and the checker that judges a sampling pipeline by them.
#pragma once

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "decode/sampler.h"

namespace rafter::decode {

struct SamplerCase {
  SamplingParams params;
  std::vector<int32_t> history, kept;
  std::vector<float> logits, logprobs;
  struct Draw {
    uint64_t seed, step;
    int32_t token;
  };
  std::vector<Draw> draws;
  std::string text;  // the case as written, for messages
};

inline Penalty penalty_of(const nlohmann::json& entry, const char* name) {
  if (!entry.contains(name)) return {};
  return {entry[name][0].get<float>(), entry[name][1].get<int32_t>()};
}

inline std::vector<SamplerCase> load_sampler_cases() {
  std::ifstream file(RAFTER_SOURCE_DIR "/tests/data/sampler_vectors.json");
  std::vector<SamplerCase> cases;
  for (const auto& entry : nlohmann::json::parse(file)) {
    SamplerCase c;
    c.params.temperature = entry["temperature"];
    c.params.top_p = entry.value("top_p", 0.0f);
    c.params.min_p = entry.value("min_p", 0.0f);
    c.params.top_k = entry.value("top_k", 0);
    c.params.xtc_probability = entry.value("xtc_probability", 0.0f);
    c.params.xtc_threshold = entry.value("xtc_threshold", 0.0f);
    c.params.xtc_exempt = entry.value("xtc_exempt", std::vector<int32_t>{});
    c.params.logit_bias = entry.value("logit_bias", std::vector<std::pair<int32_t, float>>{});
    c.params.repetition = penalty_of(entry, "repetition");
    c.params.presence = penalty_of(entry, "presence");
    c.params.frequency = penalty_of(entry, "frequency");
    c.history = entry["history"].get<std::vector<int32_t>>();
    c.logits = entry["logits"].get<std::vector<float>>();
    c.logprobs = entry["logprobs"].get<std::vector<float>>();
    c.kept = entry["kept"].get<std::vector<int32_t>>();
    for (const auto& draw : entry["draws"]) {
      c.draws.push_back({std::stoull(draw[0].get<std::string>()), draw[1], draw[2]});
    }
    c.text = entry.dump();
    cases.push_back(std::move(c));
  }
  return cases;
}

// What a pipeline makes of a case: the logprobs and the surviving ids, ascending.
struct Filtered {
  std::vector<float> logprobs;
  std::vector<int32_t> kept;
};
using Pipeline = std::function<Filtered(const SamplerCase&)>;

// The number of cases the pipeline gets wrong.
inline int count_failures(const std::vector<SamplerCase>& cases, const Pipeline& pipeline) {
  int failures = 0;
  for (const SamplerCase& c : cases) {
    const Filtered filtered = pipeline(c);
    bool good = filtered.kept == c.kept && filtered.logprobs.size() == c.logprobs.size();
    for (size_t i = 0; good && i < c.logprobs.size(); ++i) {
      good = std::abs(filtered.logprobs[i] - c.logprobs[i]) <= 2e-6f * (1 + std::abs(c.logprobs[i]));
    }
    failures += good ? 0 : 1;
  }
  return failures;
}

}  // namespace rafter::decode

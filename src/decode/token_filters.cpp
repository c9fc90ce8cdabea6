#include "decode/token_filters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rafter::decode {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float logprob_of(std::span<const float> logprobs, int32_t id) { return logprobs[static_cast<size_t>(id)]; }

// Ids whose logprob is at least `floor`, in ascending order, from the set or from the whole vocabulary. −inf
// never is.
std::vector<int32_t> at_least(std::span<const float> logprobs, float floor, const TokenSet& set) {
  const float lowest = std::max(floor, -std::numeric_limits<float>::max());
  std::vector<int32_t> ids;
  if (set.everything) {
    for (size_t id = 0; id < logprobs.size(); ++id) {
      if (logprobs[id] >= lowest) ids.push_back(static_cast<int32_t>(id));
    }
  } else {
    for (int32_t id : set.ids) {
      if (logprob_of(logprobs, id) >= lowest) ids.push_back(id);
    }
  }
  return ids;
}

// By logprob, the larger first; of equals the lower or the higher id first.
struct RanksAbove {
  std::span<const float> logprobs;
  bool lower_id_first;

  bool operator()(int32_t a, int32_t b) const {
    const float left = logprob_of(logprobs, a), right = logprob_of(logprobs, b);
    if (left != right) return left > right;
    return lower_id_first ? a < b : a > b;
  }
};

void replace(TokenSet& set, std::vector<int32_t> ids) {
  set.everything = false;
  set.ids = std::move(ids);
}

float largest_of(std::span<const float> logprobs, std::span<const int32_t> ids) {
  float largest = -kInfinity;
  for (int32_t id : ids) largest = std::max(largest, logprob_of(logprobs, id));
  return largest;
}

}  // namespace

void keep_top_p(std::span<const float> logprobs, float top_p, TokenSet& set) {
  if (!(top_p > 0 && top_p < 1)) return;
  // All tokens with p < (1 − top_p) / V together weigh less than 1 − top_p, so none of them can be kept. Half
  // of that bound leaves room for the rounding of the logprobs.
  const float floor = std::log((1 - top_p) / static_cast<float>(logprobs.size()) / 2);
  std::vector<int32_t> ids = at_least(logprobs, floor, set);
  const RanksAbove ranks_above{logprobs, false};
  // Ranks are made in growing chunks: a peaked distribution needs only the first.
  double mass_above = 0;
  size_t ranked = 0, kept = 0;
  for (size_t chunk = 64; kept == ranked && ranked < ids.size(); chunk *= 4) {
    const size_t end = std::min(ids.size(), ranked + chunk);
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(ranked);
    const auto last = ids.begin() + static_cast<std::ptrdiff_t>(end);
    if (end < ids.size()) std::nth_element(first, last, ids.end(), ranks_above);
    std::sort(first, last, ranks_above);
    ranked = end;
    while (kept < ranked && mass_above < top_p) {
      mass_above += std::exp(static_cast<double>(logprob_of(logprobs, ids[kept])));
      ++kept;
    }
  }
  ids.resize(kept);
  replace(set, std::move(ids));
}

void keep_min_p(std::span<const float> logprobs, float min_p, TokenSet& set) {
  if (min_p == 0) return;
  const float largest =
      set.everything ? *std::max_element(logprobs.begin(), logprobs.end()) : largest_of(logprobs, set.ids);
  replace(set, at_least(logprobs, largest + std::log(min_p), set));
}

void exclude_top_choices(std::span<const float> logprobs, float threshold, std::span<const int32_t> exempt,
                         TokenSet& set) {
  std::vector<int32_t> ids = at_least(logprobs, -kInfinity, set);
  if (ids.empty()) return;
  const float largest = largest_of(logprobs, ids);
  std::vector<double> probabilities(ids.size());
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    probabilities[i] = std::exp(static_cast<double>(logprob_of(logprobs, ids[i])) - largest);
    sum += probabilities[i];
  }
  double least_above = std::numeric_limits<double>::infinity();
  for (double& probability : probabilities) {
    probability /= sum;
    if (probability > threshold) least_above = std::min(least_above, probability);
  }
  std::vector<int32_t> kept;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_exempt = std::find(exempt.begin(), exempt.end(), ids[i]) != exempt.end();
    if (probabilities[i] <= least_above || is_exempt) kept.push_back(ids[i]);
  }
  replace(set, std::move(kept));
}

void keep_top_k(std::span<const float> logprobs, int32_t k, TokenSet& set) {
  if (k <= 0) return;
  const auto limit = static_cast<size_t>(k);
  if (limit >= (set.everything ? logprobs.size() : set.ids.size())) return;
  const RanksAbove ranks_above{logprobs, true};
  // One pass with a buffer of 2k: whenever it is full its lower half goes, and the least kept value becomes
  // the bar.
  std::vector<int32_t> best;
  best.reserve(std::min(2 * limit, logprobs.size()));
  const auto middle = static_cast<std::ptrdiff_t>(limit);
  float bar = -kInfinity;
  const auto offer = [&](int32_t id) {
    if (logprob_of(logprobs, id) < bar) return;
    best.push_back(id);
    if (best.size() < 2 * limit) return;
    std::nth_element(best.begin(), best.begin() + middle - 1, best.end(), ranks_above);
    best.resize(limit);
    bar = logprob_of(logprobs, best.back());
  };
  if (set.everything) {
    for (size_t id = 0; id < logprobs.size(); ++id) offer(static_cast<int32_t>(id));
  } else {
    for (int32_t id : set.ids) offer(id);
  }
  if (best.size() > limit) {
    std::nth_element(best.begin(), best.begin() + middle - 1, best.end(), ranks_above);
    best.resize(limit);
  }
  replace(set, std::move(best));
}

TokenSet filter_tokens(std::span<const float> logprobs, const SamplingParams& params, double xtc_coin) {
  TokenSet set;
  keep_top_p(logprobs, params.top_p, set);
  keep_min_p(logprobs, params.min_p, set);
  if (params.xtc_probability > 0 && xtc_coin <= params.xtc_probability) {
    exclude_top_choices(logprobs, params.xtc_threshold, params.xtc_exempt, set);
  }
  keep_top_k(logprobs, params.top_k, set);
  return set;
}

std::vector<int32_t> best_tokens(std::span<const float> logprobs, int32_t k) {
  if (k <= 0) return {};
  TokenSet set;
  keep_top_k(logprobs, k, set);
  if (set.everything) {
    set.ids.resize(logprobs.size());
    std::iota(set.ids.begin(), set.ids.end(), 0);
  }
  std::sort(set.ids.begin(), set.ids.end(), RanksAbove{logprobs, true});
  return std::move(set.ids);
}

}  // namespace rafter::decode

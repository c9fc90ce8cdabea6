#include "decode/sampler.h"

#include <algorithm>
#include <limits>

#include "decode/random.h"
#include "decode/softmax.h"

namespace rafter::decode {
Sampler::Sampler(SamplingParams params)
    : params_(std::move(params)), processors_(params_), seed_(params_.seed ? *params_.seed : fresh_seed()) {}

base::Result<Sample> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                                     SamplerScratch& scratch, TokenConstraint* constraint) {
  scratch.logits.assign(logits.begin(), logits.end());
  std::span<float> work = scratch.logits;
  if (constraint != nullptr) constraint->mask(work);
  processors_.apply(work, history);
  const Largest largest = find_largest(work);
  if (!largest.finite) {
    return base::Error{base::ErrorCode::internal, "the model's logits are not finite", "sampler", ""};
  }
  const bool greedy = params_.temperature == 0;
  const bool wants_logprobs = params_.top_logprobs >= 0;
  Sample sample{static_cast<int32_t>(largest.index), std::nullopt, {}};
  if (!greedy || wants_logprobs) {
    const float normalizer = log_sum_exp(work, largest.value);
    for (float& logit : work) logit -= normalizer;
  }
  if (!greedy) sample.token = draw(work, scratch);
  if (wants_logprobs) {
    sample.logprob = work[static_cast<size_t>(sample.token)];
    for (int32_t id : best_tokens(work, params_.top_logprobs)) {
      sample.best.push_back({id, work[static_cast<size_t>(id)]});
    }
  }
  ++step_;
  return sample;
}

int32_t Sampler::draw(std::span<const float> logprobs, SamplerScratch& scratch) const {
  const bool uses_xtc = params_.xtc_probability > 0;
  const uint64_t key = step_key(seed_, step_);
  TokenSet set = filter_tokens(logprobs, params_, uses_xtc ? uniform(split_key(key, 0)) : 1.0);

  // The kept tokens in ascending order, so that a set that two ways of filtering agree on gives one draw.
  std::span<const float> kept = logprobs;
  std::vector<float> gathered;
  if (!set.everything) {
    std::sort(set.ids.begin(), set.ids.end());
    for (int32_t id : set.ids) gathered.push_back(logprobs[static_cast<size_t>(id)]);
    kept = gathered;
  }
  RAFTER_CHECK(!kept.empty(), "the filters removed every token");
  const Largest best = find_largest(kept);
  const float scale = std::min(1 / params_.temperature, std::numeric_limits<float>::max());
  scratch.weights.resize(kept.size());
  const double sum = exponentials(kept, best.value, scale, scratch.weights);
  const size_t index = draw_index(scratch.weights, sum, uniform(uses_xtc ? split_key(key, 1) : key));
  return set.everything ? static_cast<int32_t>(index) : set.ids[index];
}

}  // namespace rafter::decode

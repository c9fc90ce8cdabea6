// Planted faults in the sampling pipeline: the vector checker must see every one of them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "decode/softmax.h"
#include "tests/support/sampler_vectors.h"

namespace rafter::decode {
namespace {

using Stage = std::function<void(std::vector<float>&, const SamplerCase&)>;
using Filter = std::function<void(std::span<const float>, const SamplerCase&, TokenSet&)>;

void process(std::vector<float>& logits, const SamplerCase& c) {
  LogitProcessors(c.params).apply(logits, c.history);
}

void normalize(std::vector<float>& logits) {
  const float normalizer = log_sum_exp(logits, find_largest(logits).value);
  for (float& logit : logits) logit -= normalizer;
}

void filter(std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
  set = filter_tokens(logprobs, c.params, 0.0);
}

Pipeline pipeline_of(Stage processing, Filter filtering) {
  return [=](const SamplerCase& c) {
    Filtered out;
    out.logprobs = c.logits;
    processing(out.logprobs, c);
    normalize(out.logprobs);
    TokenSet set;
    filtering(out.logprobs, c, set);
    if (set.everything) {
      set.ids.resize(out.logprobs.size());
      std::iota(set.ids.begin(), set.ids.end(), 0);
    }
    std::sort(set.ids.begin(), set.ids.end());
    out.kept = set.ids;
    return out;
  };
}

class SamplerMutants : public ::testing::Test {
 protected:
  void expect_caught(Stage processing, Filter filtering) {
    EXPECT_GT(count_failures(cases, pipeline_of(processing, filtering)), 0);
  }
  // The fault is made in a copy of the case's parameters.
  void expect_caught(const std::function<void(SamplerCase&)>& change) {
    EXPECT_GT(count_failures(cases,
                             [&](const SamplerCase& c) {
                               SamplerCase changed = c;
                               change(changed);
                               return pipeline_of(process, filter)(changed);
                             }),
              0);
  }
  std::vector<SamplerCase> cases = load_sampler_cases();
};

TEST_F(SamplerMutants, TheUnchangedPipelinePasses) {
  EXPECT_EQ(count_failures(cases, pipeline_of(process, filter)), 0);
}

TEST_F(SamplerMutants, BiasIsForgotten) {
  expect_caught([](SamplerCase& c) { c.params.logit_bias.clear(); });
}

TEST_F(SamplerMutants, RepetitionPenaltyCountsDuplicates) {
  expect_caught(
      [](std::vector<float>& logits, const SamplerCase& c) {
        SamplerCase rest = c;
        rest.params.repetition = {};
        const float p = c.params.repetition.strength;
        for (int32_t token : c.history) {
          float& logit = logits[static_cast<size_t>(token)];
          if (p != 0) logit = logit < 0 ? logit * p : logit / p;
        }
        process(logits, rest);
      },
      filter);
}

TEST_F(SamplerMutants, RepetitionPenaltyIgnoresTheSign) {
  expect_caught(
      [](std::vector<float>& logits, const SamplerCase& c) {
        std::vector<float> before = logits;
        process(logits, c);
        for (size_t i = 0; i < logits.size() && c.params.repetition.strength > 0; ++i) {
          if (before[i] < 0 && logits[i] != before[i]) logits[i] = before[i] / c.params.repetition.strength;
        }
      },
      filter);
}

TEST_F(SamplerMutants, PresenceAndFrequencyAreSwapped) {
  expect_caught([](SamplerCase& c) { std::swap(c.params.presence, c.params.frequency); });
}

TEST_F(SamplerMutants, WindowOfZeroMeansNothing) {
  expect_caught([](SamplerCase& c) {
    for (Penalty* p : {&c.params.repetition, &c.params.presence, &c.params.frequency}) {
      if (p->window == 0) p->strength = 0;
    }
  });
}

TEST_F(SamplerMutants, WindowIsOneTokenLonger) {
  expect_caught([](SamplerCase& c) {
    for (Penalty* p : {&c.params.repetition, &c.params.presence, &c.params.frequency}) {
      if (p->window != 0) ++p->window;
    }
  });
}

TEST_F(SamplerMutants, PenaltiesComeBeforeTheBias) {
  expect_caught(
      [](std::vector<float>& logits, const SamplerCase& c) {
        SamplerCase rest = c;
        rest.params.logit_bias.clear();
        process(logits, rest);
        for (const auto& [token, bias] : c.params.logit_bias) logits[static_cast<size_t>(token)] += bias;
      },
      filter);
}

TEST_F(SamplerMutants, TemperatureComesFirst) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    std::vector<float> scaled(logprobs.begin(), logprobs.end());
    for (float& value : scaled) value /= c.params.temperature == 0 ? 1 : c.params.temperature;
    normalize(scaled);
    set = filter_tokens(scaled, c.params, 0.0);
  });
}

TEST_F(SamplerMutants, TopKComesFirst) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    TokenSet best;
    keep_top_k(logprobs, c.params.top_k, best);
    std::vector<float> masked(logprobs.begin(), logprobs.end());
    for (size_t i = 0; !best.everything && i < masked.size(); ++i) {
      if (std::find(best.ids.begin(), best.ids.end(), static_cast<int32_t>(i)) == best.ids.end())
        masked[i] = -1e30f;
    }
    if (!best.everything) normalize(masked);
    set = filter_tokens(masked, c.params, 0.0);
  });
}

TEST_F(SamplerMutants, TopPKeepsOneTokenTooFew) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    keep_top_p(logprobs, c.params.top_p, set);
    if (!set.everything && set.ids.size() > 1) set.ids.pop_back();
    keep_min_p(logprobs, c.params.min_p, set);
    if (c.params.xtc_probability > 0) {
      exclude_top_choices(logprobs, c.params.xtc_threshold, c.params.xtc_exempt, set);
    }
    keep_top_k(logprobs, c.params.top_k, set);
  });
}

TEST_F(SamplerMutants, TopPBreaksTiesTheOtherWay) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    std::vector<float> reversed(logprobs.rbegin(), logprobs.rend());
    set = filter_tokens(reversed, c.params, 0.0);
    const auto last = static_cast<int32_t>(logprobs.size()) - 1;
    for (int32_t& id : set.ids) id = last - id;
  });
}

TEST_F(SamplerMutants, MinPComparesWithOneInsteadOfTheLargest) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    SamplingParams rest = c.params;
    rest.min_p = 0;
    set = filter_tokens(logprobs, rest, 0.0);
    if (c.params.min_p == 0) return;
    TokenSet kept{false, {}};
    for (size_t i = 0; i < logprobs.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const bool in = set.everything || std::find(set.ids.begin(), set.ids.end(), id) != set.ids.end();
      if (in && logprobs[i] >= std::log(c.params.min_p)) kept.ids.push_back(id);
    }
    set = kept;
  });
}

TEST_F(SamplerMutants, XtcForgetsTheExempt) {
  expect_caught([](SamplerCase& c) { c.params.xtc_exempt.clear(); });
}

TEST_F(SamplerMutants, XtcRemovesTheLeastLikelyChoiceToo) {
  expect_caught(process, [](std::span<const float> logprobs, const SamplerCase& c, TokenSet& set) {
    set = filter_tokens(logprobs, c.params, 0.0);
    if (c.params.xtc_probability == 0) return;
    std::erase_if(set.ids, [&](int32_t id) {
      return std::exp(logprobs[static_cast<size_t>(id)]) > c.params.xtc_threshold;
    });
  });
}

}  // namespace
}  // namespace rafter::decode

#include "kernels/cpu/router.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rafter::kernels {
namespace {

bool is_higher(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// The K best of E by insertion: one pass, an equal score stays behind the earlier one.
void choose(const RouterArgs& args, const float* logits, Route* routes) {
  int32_t count = 0;
  for (int32_t e = 0; e < args.experts; ++e) {
    int32_t rank = count;
    while (rank > 0 && is_higher(logits[e], logits[routes[rank - 1].expert])) --rank;
    if (rank == args.chosen) continue;
    count = std::min(count + 1, args.chosen);
    for (int32_t j = count - 1; j > rank; --j) routes[j] = routes[j - 1];
    routes[rank].expert = e;
  }
}

// In double: a row has few weights, and they scale all that follows.
void weigh(const RouterArgs& args, const float* logits, Route* routes) {
  double weights[RouterArgs::kMostChosen];
  const double largest = logits[routes[0].expert];
  double total = 0, sum = 0;
  if (args.weights == RouterWeights::softmax) {
    for (int32_t e = 0; e < args.experts; ++e) total += std::exp(logits[e] - largest);
  } else {
    for (int32_t j = 0; j < args.chosen; ++j) total += std::exp(logits[routes[j].expert] - largest);
  }
  for (int32_t j = 0; j < args.chosen; ++j) {
    const double logit = logits[routes[j].expert];
    weights[j] = args.weights == RouterWeights::sigmoid ? 1 / (1 + std::exp(-logit))
                                                        : std::exp(logit - largest) / total;
    sum += weights[j];
  }
  for (int32_t j = 0; j < args.chosen; ++j) {
    double weight = args.normalize ? weights[j] / sum : weights[j];
    if (args.expert_scale != nullptr) weight *= args.expert_scale[routes[j].expert];
    routes[j].weight = static_cast<float>(weight * args.scale);
  }
}

}  // namespace

void route_rows(const RouterArgs& args, Worker& worker) {
  RAFTER_CHECK(args.chosen >= 1 && args.chosen <= RouterArgs::kMostChosen && args.chosen <= args.experts,
               "{} of {} experts", args.chosen, args.experts);
  for (int64_t begin, end; worker.claim(0, *args.rows, 1, &begin, &end);) {
    const float* logits = args.logits + begin * args.experts;
    Route* routes = args.routes + begin * args.chosen;
    choose(args, logits, routes);
    weigh(args, logits, routes);
  }
}

}  // namespace rafter::kernels

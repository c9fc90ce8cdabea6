// A mixture's router: which K of E experts each row goes to, and with what weights.
//
// Choice: the K largest scores, in descending order, ties by the lowest index (a NaN counts as the lowest
// score). The scores are the logits themselves, since every normalisation below preserves their order and
// none may make ties of what differs.
//
// Weights, in rank order j, with e_j the chosen logits:
//   softmax          exp(e_j) / Σ over all E of exp(e)
//   softmax_chosen   exp(e_j) / Σ over the chosen of exp(e)
//   sigmoid          1 / (1 + exp(−e_j))
// then, if `normalize`, divided by their sum over the chosen; then · expert_scale[e_j] if given; then ·
// scale. softmax + normalize is softmax_chosen, mathematically.
//
// Order contract: sums run in ascending expert index (softmax) or rank (the chosen); nothing depends on other
// rows.
#pragma once

#include "kernels/op/step.h"

namespace rafter::kernels {

enum class RouterWeights : uint8_t { softmax, softmax_chosen, sigmoid };

// One choice of one row. A value of routes is [B, 2 · K] words: K of these per row, by rank.
struct Route {
  int32_t expert;
  float weight;
};

struct RouterArgs {
  static constexpr int32_t kMostExperts = 4096;
  static constexpr int32_t kMostChosen = 64;

  const int32_t* rows = nullptr;
  int32_t experts = 0;  // E
  int32_t chosen = 0;   // K ≤ E
  RouterWeights weights = RouterWeights::softmax;
  bool normalize = false;
  float scale = 1.0f;
  const float* expert_scale = nullptr;  // [E] or null
  const float* logits = nullptr;        // [B, E]
  Route* routes = nullptr;              // [B, K]
};

inline Cost cost(const RouterArgs& a, int64_t rows) {
  return {0, 0, rows * (a.experts * 4 + a.chosen * 8), rows * a.experts * (a.chosen + 4)};
}

}  // namespace rafter::kernels

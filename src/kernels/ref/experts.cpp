#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/ref/bodies.h"
#include "tensor/codec.h"

namespace rafter::kernels::reference {
namespace {

// Weights of the chosen, before normalisation and scales.
std::vector<double> chosen_weights(const RouterArgs& args, const float* logits,
                                   const std::vector<int32_t>& chosen) {
  const double largest = logits[chosen[0]];
  double total = 0;
  for (int32_t e = 0; args.weights == RouterWeights::softmax && e < args.experts; ++e) {
    total += std::exp(double{logits[e]} - largest);
  }
  for (int32_t e : chosen) {
    if (args.weights == RouterWeights::softmax_chosen) total += std::exp(double{logits[e]} - largest);
  }
  std::vector<double> weights;
  for (int32_t e : chosen) {
    weights.push_back(args.weights == RouterWeights::sigmoid ? 1 / (1 + std::exp(-double{logits[e]}))
                                                             : std::exp(double{logits[e]} - largest) / total);
  }
  return weights;
}

double activate(GatedActivation activation, double gate) {
  if (activation == GatedActivation::swiglu) return gate / (1 + std::exp(-gate));
  constexpr double kRootTwoOverPi = 0.79788456080286535588;
  return 0.5 * gate * (1 + std::tanh(kRootTwoOverPi * (gate + 0.044715 * gate * gate * gate)));
}

float rounded(float value, MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16_inputs ? tensor::round_to_bf16(value) : value;
}

// weight · x, x rounded as the precision says.
std::vector<float> product(const tensor::MatrixView& weight, const float* x, MatmulPrecision precision) {
  std::vector<float> row(weight.columns), out;
  for (int64_t n = 0; n < weight.rows; ++n) {
    tensor::decode_row(weight, n, row);
    double sum = 0;
    for (int64_t k = 0; k < weight.columns; ++k) sum += double{row[k]} * rounded(x[k], precision);
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

}  // namespace

void router(const RouterArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  for (int64_t b = 0; b < *args.rows; ++b) {
    const float* logits = args.logits + b * args.experts;
    std::vector<int32_t> chosen;
    std::vector<bool> taken(args.experts);
    for (int32_t j = 0; j < args.chosen; ++j) {
      int32_t best = -1;
      for (int32_t e = 0; e < args.experts; ++e) {
        if (taken[e]) continue;
        if (best < 0 || logits[e] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[e])))
          best = e;
      }
      taken[best] = true;
      chosen.push_back(best);
    }
    std::vector<double> weights = chosen_weights(args, logits, chosen);
    double sum = 0;
    for (double weight : weights) sum += weight;
    for (int32_t j = 0; j < args.chosen; ++j) {
      double weight = weights[j];
      if (args.normalize) weight /= sum;
      if (args.expert_scale != nullptr) weight *= args.expert_scale[chosen[j]];
      args.routes[b * args.chosen + j] = {chosen[j], static_cast<float>(weight * args.scale)};
    }
  }
}

void experts(const ExpertsArgs& args, Worker& worker) {
  if (worker.index() != 0) return;
  std::vector<bool> read(args.experts);
  std::vector<double> sums(args.width);
  for (int64_t b = 0; b < *args.rows; ++b) {
    sums.assign(args.width, 0.0);
    for (int32_t j = 0; j < args.chosen; ++j) {
      const Route& route = args.routes[b * args.chosen + j];
      RAFTER_CHECK(route.expert >= 0 && route.expert < args.experts, "expert {} of {}", route.expert,
                   args.experts);
      read[route.expert] = true;
      const float* x = args.x + b * args.width;
      std::vector<float> hidden = product(args.gate[route.expert], x, args.precision);
      const std::vector<float> up = product(args.up[route.expert], x, args.precision);
      for (int64_t i = 0; i < args.hidden; ++i) {
        hidden[i] = static_cast<float>(activate(args.activation, hidden[i]) * up[i]);
      }
      const std::vector<float> out = product(args.down[route.expert], hidden.data(), args.precision);
      for (int64_t i = 0; i < args.width; ++i) sums[i] += double{route.weight} * out[i];
    }
    for (int64_t i = 0; i < args.width; ++i) args.out[b * args.width + i] = static_cast<float>(sums[i]);
  }
  if (args.experts_read != nullptr) {
    *args.experts_read = 0;
    for (bool one : read) *args.experts_read += one;
  }
}

}  // namespace rafter::kernels::reference

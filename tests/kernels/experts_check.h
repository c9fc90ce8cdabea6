// Checking the experts op: random mixtures, the reference's values with bounds derived from norms, and the
// composition of separate ops that the op must equal bit for bit.
#pragma once

#include <memory>
#include <set>

#include "kernels/op/experts.h"
#include "tests/kernels/matmul_check.h"

namespace rafter::kernels::testing {

// Formats of gate, up and down.
struct ExpertFormats {
  tensor::NumberFormat gate, up, down;
};

// A mixture with weights behind fences. The last expert's weights cannot be read: no row may choose it.
class Mixture {
 public:
  static constexpr int32_t kExperts = 7, kChosen = 3;

  explicit Mixture(const ExpertFormats& formats, GatedActivation activation = GatedActivation::swiglu)
      : activation_(activation) {
    const int64_t inner = std::max(formats.gate.block_columns(), formats.up.block_columns());
    width_ = inner == 1 ? 100 : inner == 256 ? 512 : 3 * inner;
    hidden_ = formats.down.block_columns() == 1 ? 37 : formats.down.block_columns();
    for (int32_t e = 0; e < kExperts; ++e) {
      const auto seed = static_cast<uint32_t>(100 + 3 * e);
      add(formats.gate, hidden_, width_, seed, gate_);
      add(formats.up, hidden_, width_, seed + 1, up_);
      add(formats.down, width_, hidden_, seed + 2, down_);
    }
    for (auto* views : {&gate_, &up_, &down_}) {
      auto* nowhere = reinterpret_cast<const std::byte*>(64);
      views->back().data = views->back().scales = views->back().biases = nowhere;
    }
  }

  int64_t width() const { return width_; }
  int64_t hidden() const { return hidden_; }
  GatedActivation activation() const { return activation_; }
  std::vector<tensor::MatrixView>& gate() { return gate_; }
  std::vector<tensor::MatrixView>& up() { return up_; }
  std::vector<tensor::MatrixView>& down() { return down_; }

  // Arguments without addresses of activations.
  ExpertsArgs args(MatmulPrecision precision) const {
    ExpertsArgs args;
    args.experts = kExperts;
    args.chosen = kChosen;
    args.width = width_;
    args.hidden = hidden_;
    args.precision = precision;
    args.activation = activation_;
    args.gate = gate_.data();
    args.up = up_.data();
    args.down = down_.data();
    return args;
  }

 private:
  void add(const tensor::NumberFormat& format, int64_t rows, int64_t columns, uint32_t seed,
           std::vector<tensor::MatrixView>& views) {
    matrices_.push_back(std::make_unique<FencedMatrix>(random_matrix(format, rows, columns, seed), seed % 3));
    views.push_back(matrices_.back()->view(rows));
  }

  GatedActivation activation_;
  int64_t width_ = 0, hidden_ = 0;
  std::vector<std::unique_ptr<FencedMatrix>> matrices_;
  std::vector<tensor::MatrixView> gate_, up_, down_;
};

// Distinct choices per row, low experts far more often than high ones, the last never.
inline std::vector<Route> random_routes(int64_t rows, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<Route> routes;
  for (int64_t r = 0; r < rows; ++r) {
    std::set<int32_t> taken;
    while (taken.size() < Mixture::kChosen) {
      const uint32_t a = generator() % (Mixture::kExperts - 1), b = generator() % (Mixture::kExperts - 1);
      const auto expert = static_cast<int32_t>(std::min(a, b));
      if (!taken.insert(expert).second) continue;
      routes.push_back({expert, 0.1f + static_cast<float>(generator() % 1000) / 1000});
    }
  }
  return routes;
}

inline std::vector<float> run_experts(const KernelTable& table, TestTeam& team, ExpertsArgs args,
                                      int32_t rows, const float* x, const Route* routes,
                                      int64_t* experts_read = nullptr) {
  GuardedBuffer<float> out(static_cast<size_t>(rows * args.width));
  args.rows = &rows;
  args.x = x;
  args.routes = routes;
  args.out = out.data();
  args.experts_read = experts_read;
  team.set_scratch(table.experts_scratch(args, rows));
  team.run(table.experts, args);
  RAFTER_CHECK(out.damage().empty() && team.damage().empty(), "{} {}", out.damage(), team.damage());
  return {out.data(), out.data() + out.size()};
}

// The op as separate ones of the same table: products and activation row by row, the sum in rank order.
inline std::vector<float> compose_experts(const KernelTable& table, const Mixture& mixture,
                                          MatmulPrecision precision, int32_t rows, const float* x,
                                          const Route* routes) {
  const ExpertsArgs args = mixture.args(precision);
  TestTeam one(1);
  const int32_t single = 1;
  std::vector<float> out(static_cast<size_t>(rows * args.width));
  for (int64_t pair = 0; pair < int64_t{rows} * args.chosen; ++pair) {
    const Route& route = routes[pair];
    const int64_t row = pair / args.chosen;
    const float* input = x + row * args.width;
    std::vector<float> hidden = run_product(table, one, args.gate[route.expert], 1, input, precision);
    const std::vector<float> up = run_product(table, one, args.up[route.expert], 1, input, precision);
    one.run(table.swiglu, SwigluArgs{&single, args.hidden, hidden.data(), up.data(), hidden.data()});
    const std::vector<float> term =
        run_product(table, one, args.down[route.expert], 1, hidden.data(), precision);
    for (int64_t i = 0; i < args.width; ++i) {
      const float product = route.weight * term[i];
      float& sum = out[row * args.width + i];
      sum = pair % args.chosen == 0 ? product : sum + product;
    }
  }
  return out;
}

// The reference's values and bounds on a kernel's error with fp32_inputs, one per row.
inline ExpectedProduct expect_experts(const Mixture& mixture, int32_t rows, const std::vector<float>& x,
                                      const std::vector<Route>& routes) {
  const ExpertsArgs args = mixture.args(MatmulPrecision::fp32_inputs);
  TestTeam one(1);
  ExpectedProduct expected;
  expected.values = run_experts(reference_kernels(), one, args, rows, x.data(), routes.data());
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<float> input(x.begin() + row * args.width, x.begin() + (row + 1) * args.width);
    double bound = 0;
    for (int32_t j = 0; j < args.chosen; ++j) {
      const Route& route = routes[row * args.chosen + j];
      const ExpectedProduct gate = expect_product(args.gate[route.expert], 1, input, args.precision);
      const ExpectedProduct up = expect_product(args.up[route.expert], 1, input, args.precision);
      std::vector<float> activated(gate.values), hidden(gate.values.size());
      for (size_t i = 0; i < hidden.size(); ++i) {
        activated[i] = gate.values[i] / (1 + std::exp(-gate.values[i]));
        hidden[i] = activated[i] * up.values[i];
      }
      // |act'| ≤ 1.13 for both activations, and |gelu| and |silu| differ by less than 0.2. Errors of the
      // hidden values are independent: their sum grows with the square root of their number.
      const double root = std::sqrt(static_cast<double>(args.hidden));
      double hidden_error = 1.13 * gate.bounds[0] * l2_norm(up.values);
      hidden_error += up.bounds[0] * (l2_norm(activated) + 0.2 * root);
      hidden_error +=
          8 * double{std::numeric_limits<float>::epsilon()} * (l2_norm(hidden) + 0.2 * l2_norm(up.values));
      double down_norm = 0;
      for (int64_t n = 0; n < args.width; ++n) {
        down_norm = std::max(down_norm, parts_norm(args.down[route.expert], n));
      }
      const ExpectedProduct down = expect_product(args.down[route.expert], 1, hidden, args.precision);
      bound += route.weight * (down.bounds[0] * 1.3 + down_norm * hidden_error / root);
    }
    expected.bounds.push_back(bound);
  }
  return expected;
}

}  // namespace rafter::kernels::testing

// Plans with a router and experts: what is fused, placed, printed and counted.
#include <sstream>

#include <gtest/gtest.h>

#include "plan/print.h"
#include "tests/unit/plan_check.h"
#include "tests/unit/plan_fixture.h"

namespace rafter::testing {
namespace {

constexpr int64_t kExperts = 8, kHidden = 32, kWidth = 64;

struct Matrices {
  std::vector<tensor::MatrixView> gate, up, down;
  Matrices() {
    for (int64_t e = 0; e < kExperts; ++e) {
      gate.push_back(shape_only(kHidden, kWidth).weight);
      up.push_back(shape_only(kHidden, kWidth).weight);
      down.push_back(shape_only(kWidth, kHidden).weight);
    }
  }
};

// A mixture with a dense branch on the same input, as qwen3.5-moe has it.
plan::Plan emit_mixture(const Matrices& matrices, int64_t capacity) {
  using plan::Value;
  static const float kWeight[kWidth] = {};
  plan::EmitOptions options;
  options.capacity = capacity;
  plan::Emitter e(options);
  const Value x = e.input("x", kWidth);
  const Value m = e.rms_norm("ffn_norm", x, kWeight, 1e-6f);
  const Value logits = e.exact_matmul("router_logits", m, shape_only(kExperts, kWidth));
  plan::RouterShape shape;
  shape.chosen = 2;
  const Value routes = e.router("router", logits, shape);
  const plan::Experts experts{matrices.gate, matrices.up, matrices.down};
  const Value mixed = e.experts("experts", m, routes, experts);
  const Value gate = e.matmul("shared_gate", m, shape_only(kHidden, kWidth));
  const Value up = e.matmul("shared_up", m, shape_only(kHidden, kWidth));
  const Value shared = e.matmul("shared_down", e.swiglu("swiglu", gate, up), shape_only(kWidth, kHidden));
  e.set_logits(e.add("residual", x, e.add("sum", mixed, shared)));
  return std::move(e).take();
}

TEST(PlanMixture, TheRouterKeepsItsOwnPrecision) {
  const Matrices matrices;
  plan::Plan plan = emit_mixture(matrices, 4);
  plan::fuse(plan);
  int exact = 0;
  for (const plan::Op& op : plan.ops) {
    const auto* matmul = std::get_if<kernels::MatmulArgs>(&op.args);
    if (matmul == nullptr || matmul->precision != kernels::MatmulPrecision::fp32_inputs) continue;
    ++exact;
    EXPECT_EQ(op.role, "router_logits");
  }
  EXPECT_EQ(exact, 1);
}

TEST(PlanMixture, PlacementIsSound) {
  const Matrices matrices;
  for (int64_t capacity : {1, 2, 64}) {
    for (bool fused : {false, true}) {
      plan::Plan plan = emit_mixture(matrices, capacity);
      if (fused) plan::fuse(plan);
      plan::place(plan,
                  [](const plan::Op& op) { return std::holds_alternative<kernels::ExpertsArgs>(op.args); });
      EXPECT_EQ(placement_fault(plan), std::nullopt) << capacity << fused;
    }
  }
}

TEST(PlanMixture, PrintsAndCountsTheExpertsRead) {
  const Matrices matrices;
  plan::Plan plan = emit_mixture(matrices, 4);
  int64_t read = 5;
  const int64_t expert_bytes = 3 * kHidden * kWidth * 2;
  for (plan::Op& op : plan.ops) {
    auto* experts = std::get_if<kernels::ExpertsArgs>(&op.args);
    if (experts == nullptr) continue;
    EXPECT_EQ(plan::op_cost(plan, op, 1, 1, 1).weight_bytes, 2 * expert_bytes);
    EXPECT_EQ(plan::op_cost(plan, op, 2, 1, 1).weight_bytes, expert_bytes * 7 / 2);  // 8 (1 − (3/4)²)
    experts->experts_read = &read;
    EXPECT_EQ(plan::counted_op_cost(plan, op, 4, 1, 1).weight_bytes, 5 * expert_bytes);
  }
  std::ostringstream out;
  plan::print_plan(plan, 1, 1, false, out);
  EXPECT_NE(out.str().find("[1,64]x2 of 8x[32,64]T"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("bf16 bf16 bf16"), std::string::npos) << out.str();
}

}  // namespace
}  // namespace rafter::testing

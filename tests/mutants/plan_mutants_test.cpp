// Planted faults that the placement checker must catch.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/plan_check.h"
#include "tests/unit/plan_fixture.h"

namespace rafter::testing {
namespace {

plan::Plan placed() {
  plan::Plan plan = emit_llama_like(4, 2, true, {});
  plan::fuse(plan);
  plan::place(plan, [](const plan::Op&) { return false; });
  return plan;
}

TEST(PlanMutants, EveryMissingBarrierIsCaught) {
  const plan::Plan right = placed();
  ASSERT_EQ(placement_fault(right), std::nullopt);
  int planted = 0;
  for (size_t i = 0; i < right.ops.size(); ++i) {
    if (!right.barrier_before[i]) continue;
    plan::Plan plan = right;
    plan.barrier_before[i] = false;
    EXPECT_NE(placement_fault(plan), std::nullopt) << "barrier before " << right.ops[i].role;
    ++planted;
  }
  EXPECT_GT(planted, 8);
}

TEST(PlanMutants, ABufferFreedTooEarlyIsCaught) {
  // The residual stream lives across a whole half layer: put what is made meanwhile over it.
  plan::Plan plan = placed();
  const plan::Op& ffn = *std::find_if(plan.ops.begin(), plan.ops.end(), [](const plan::Op& op) {
    return op.role == "ffn_norm+ffn_gate+ffn_up+swiglu";
  });
  plan.offsets[ffn.outputs[0].id] = plan.offsets[ffn.inputs[0].id];
  EXPECT_NE(placement_fault(plan), std::nullopt);
}

TEST(PlanMutants, SwappedOpsAreCaught) {
  plan::Plan plan = placed();
  std::swap(plan.ops[2], plan.ops[3]);
  EXPECT_NE(placement_fault(plan), std::nullopt);
}

}  // namespace
}  // namespace rafter::testing

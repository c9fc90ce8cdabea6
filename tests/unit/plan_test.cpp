#include "plan/plan.h"

#include <sstream>

#include <gtest/gtest.h>

#include "plan/print.h"
#include "tests/unit/plan_check.h"
#include "tests/unit/plan_fixture.h"

namespace rafter::testing {
namespace {

bool scratch_of_matmuls(const plan::Op& op) { return std::holds_alternative<kernels::MatmulArgs>(op.args); }
bool no_scratch(const plan::Op&) { return false; }

std::vector<std::string> roles(const plan::Plan& plan, int32_t layer) {
  std::vector<std::string> found;
  for (const plan::Op& op : plan.ops) {
    if (op.layer == layer) found.push_back(op.role);
  }
  return found;
}

TEST(Plan, ALayerFusesIntoSixOps) {
  plan::Plan plan = emit_llama_like(8, 2, false, {});
  plan::fuse(plan);
  EXPECT_EQ(roles(plan, 1),
            (std::vector<std::string>{"attn_norm+q_proj+k_proj+v_proj", "q_rope+k_rope+kv_append",
                                      "attention", "o_proj+attn_residual", "ffn_norm+ffn_gate+ffn_up+swiglu",
                                      "ffn_down+ffn_residual"}));
  EXPECT_EQ(roles(plan, -1),
            (std::vector<std::string>{"embed_tokens", "rope_angles", "select_wanted", "final_norm+lm_head"}));
}

TEST(Plan, ExpandUndoesFuse) {
  const plan::Plan plain = emit_llama_like(8, 3, true, {});
  plan::Plan plan = emit_llama_like(8, 3, true, {});
  plan::fuse(plan);
  EXPECT_LT(plan.ops.size(), plain.ops.size());
  plan::expand(plan, [](const plan::Op&) { return false; });
  ASSERT_EQ(plan.ops.size(), plain.ops.size());
  // The same ops over the same values; independent neighbours may have changed places.
  for (const plan::Op& op : plain.ops) {
    auto same = std::find_if(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& other) {
      return other.role == op.role && other.layer == op.layer && other.inputs == op.inputs &&
             other.outputs == op.outputs;
    });
    EXPECT_NE(same, plan.ops.end()) << op.role;
  }
  plan::place(plan, no_scratch);
  EXPECT_EQ(placement_fault(plan), std::nullopt);
}

TEST(Plan, ATappedValueIsNotFusedAway) {
  plan::Plan plan = emit_llama_like(8, 2, false, {"layer.1.attn_norm", "layer.0.hidden"});
  plan::fuse(plan);
  EXPECT_EQ(roles(plan, 0)[0], "attn_norm+q_proj+k_proj+v_proj");
  EXPECT_EQ(roles(plan, 1)[0], "attn_norm");
  plan::place(plan, no_scratch);
  EXPECT_EQ(placement_fault(plan), std::nullopt);
}

TEST(Plan, PlacementIsSoundForEveryShapeOfPlan) {
  for (int64_t capacity : {1, 2, 16, 512}) {
    for (int layers : {1, 2, 7}) {
      for (bool qk_norm : {false, true}) {
        for (bool fused : {false, true}) {
          for (bool scratch : {false, true}) {
            plan::Plan plan = emit_llama_like(capacity, layers, qk_norm, {"layer.0.hidden"});
            if (fused) plan::fuse(plan);
            plan::place(plan, scratch ? scratch_of_matmuls : no_scratch);
            ASSERT_EQ(placement_fault(plan), std::nullopt)
                << capacity << " " << layers << " " << qk_norm << fused;
          }
        }
      }
    }
  }
}

TEST(Plan, DepthDoesNotCostMemory) {
  plan::Plan shallow = emit_llama_like(64, 2, false, {}), deep = emit_llama_like(64, 40, false, {});
  plan::fuse(shallow);
  plan::fuse(deep);
  plan::place(shallow, no_scratch);
  plan::place(deep, no_scratch);
  EXPECT_EQ(shallow.arena_bytes, deep.arena_bytes);
}

TEST(Plan, ThePrinterFoldsEqualLayersAndSumsBytes) {
  plan::Plan plan = emit_llama_like(1, 4, false, {});
  plan::fuse(plan);
  plan::place(plan, no_scratch);
  std::ostringstream folded, whole;
  plan::print_plan(plan, 1, 100, false, folded);
  plan::print_plan(plan, 1, 100, true, whole);
  EXPECT_NE(folded.str().find("layers 1 to 3 are the same"), std::string::npos) << folded.str();
  EXPECT_LT(folded.str().size(), whole.str().size());
  // Per layer (128+64+64)·64 + 64·128 + 2·160·64 + 64·160 bf16 weights, and the head.
  const int64_t weights = 4 * ((256 * 64) + (64 * 128) + (320 * 64) + (64 * 160)) * 2 + 320 * 64 * 2;
  int64_t matmul_bytes = 0;
  for (const plan::StepDescription& s : plan::describe(plan, 1, 1, 100)) {
    if (s.op == "matmul") matmul_bytes += s.cost.weight_bytes;
  }
  EXPECT_EQ(matmul_bytes, weights);
}

}  // namespace
}  // namespace rafter::testing

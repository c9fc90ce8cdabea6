// A plan: the ops of one step, in order, over values that are written once.
//
//   emit (plan/emitter.h) → fuse (plan/fuse.h) → place buffers and barriers (plan/place.h) → bind (engine)
//
// Rows are tokens. A plan is made for a capacity of rows; how many are live is read at run time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "kernels/op/attention.h"
#include "kernels/op/delta_net.h"
#include "kernels/op/elementwise.h"
#include "kernels/op/embed.h"
#include "kernels/op/experts.h"
#include "kernels/op/kv_cache.h"
#include "kernels/op/matmul.h"
#include "kernels/op/rms_norm.h"
#include "kernels/op/rope.h"
#include "kernels/op/router.h"

namespace rafter::plan {

// Names a value of a plan.
struct Value {
  int32_t id = -1;
  bool valid() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};

// Which rows a value has: every row of the step, or only those whose logits are wanted.
enum class RowSpace : uint8_t { step, wanted };

// fp32 [rows, width]. A width of 0 is a token: it orders ops that meet in the cache and takes no memory.
struct ValueInfo {
  std::string name;
  RowSpace rows = RowSpace::step;
  int64_t width = 0;
};

// An op's arguments are the kernel's own struct. The emitter fills in everything but the activations and the
// cache, whose addresses exist only once the plan is bound.
using OpArgs =
    std::variant<kernels::EmbedArgs, kernels::RmsNormArgs, kernels::MatmulArgs, kernels::RopeAnglesArgs,
                 kernels::RopeArgs, kernels::KvAppendArgs, kernels::AttentionArgs, kernels::RowAttentionArgs,
                 kernels::SwigluArgs, kernels::AddArgs, kernels::SelectRowsArgs, kernels::RouterArgs,
                 kernels::ExpertsArgs, kernels::RopeAppendArgs, kernels::ShortConvolutionArgs,
                 kernels::L2NormArgs, kernels::DeltaGatesArgs, kernels::GatedDeltaArgs,
                 kernels::GatedRmsNormArgs, kernels::SplitGateArgs, kernels::SigmoidGateArgs,
                 kernels::GegluArgs, kernels::ScaleArgs, kernels::SoftcapArgs>;

// Inputs and outputs stand in this order:
//   embed         –                          → out
//   rms_norm      x [, residual]             → out
//   matmul        x [, residual]             → one per segment (gated: one)
//   rope_angles   –                          → angles
//   rope          x, angles                  → out
//   kv_append     k, v                       → token
//   attention     q, token                   → out
//   row_attention q, k, v                    → out
//   swiglu        gate, up                   → out
//   add           a, b                       → out
//   select_rows   x                          → out
//   router        logits                     → routes
//   experts       x, routes                  → out
//   rope_append   q, k, v, angles            → q rotated, token
//   short_convolution x                      → q, k, v
//   l2_norm       x                          → out
//   delta_gates   alpha, beta                → gates
//   gated_delta   q, k, v, gates             → out
//   gated_rms_norm x, gate                   → out
//   split_gate    x                          → query, gate
//   sigmoid_gate  x, gate                    → out
//   geglu         gate, up                   → out
//   scale         x                          → out
//   softcap       x                          → out
struct Op {
  std::string role;    // "attn_norm", "q_proj"; fused ops join their parts with '+'
  int32_t layer = -1;  // −1 outside the layers
  OpArgs args;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  int32_t cache_layer = -1;     // attention and append: the layer of the cache; delta-net ops: of the states
  std::vector<Op> composition;  // fused ops: the plain ops it stands for, in order
};

const char* op_name(const OpArgs& args);  // "rms_norm"

// The number formats of the matrices that an op multiplies with, one per role; empty if it has none.
std::vector<tensor::NumberFormat> weight_formats(const OpArgs& args);

struct Plan {
  int64_t capacity = 0;  // rows
  std::vector<ValueInfo> values;
  std::vector<Op> ops;
  Value logits;                       // [wanted rows, V]; invalid for a plan that emits none
  std::map<std::string, Value> taps;  // values kept for reading after the step

  const ValueInfo& info(Value value) const { return values[static_cast<size_t>(value.id)]; }

  // Filled by place(): the offset of each value's buffer in the activation arena, and whether the team meets
  // before each op.
  std::vector<int64_t> offsets;
  std::vector<bool> barrier_before;
  int64_t arena_bytes = 0;

  // Filled when bound: the kernel each op got.
  std::vector<std::string> kernels;
};

// What op `op` costs with `rows` live rows, attending to `context` positions each. `wanted` of them want
// logits: the last of a sequence each, so that the caches of that many are read. Experts: those that the rows
// are expected to choose.
kernels::Cost op_cost(const Plan& plan, const Op& op, int64_t rows, int64_t wanted, int64_t context);

// The same after the step ran with these rows, with the experts that were read.
kernels::Cost counted_op_cost(const Plan& plan, const Op& op, int64_t rows, int64_t wanted, int64_t context);

}  // namespace rafter::plan

#include "plan/plan.h"

#include <algorithm>

namespace rafter::plan {
namespace {

using namespace kernels;

struct NameOf {
  const char* operator()(const EmbedArgs&) const { return "embed"; }
  const char* operator()(const RmsNormArgs&) const { return "rms_norm"; }
  const char* operator()(const MatmulArgs&) const { return "matmul"; }
  const char* operator()(const RopeAnglesArgs&) const { return "rope_angles"; }
  const char* operator()(const RopeArgs&) const { return "rope"; }
  const char* operator()(const KvAppendArgs&) const { return "kv_append"; }
  const char* operator()(const AttentionArgs&) const { return "attention"; }
  const char* operator()(const RowAttentionArgs&) const { return "row_attention"; }
  const char* operator()(const SwigluArgs&) const { return "swiglu"; }
  const char* operator()(const AddArgs&) const { return "add"; }
  const char* operator()(const SelectRowsArgs&) const { return "select_rows"; }
  const char* operator()(const RouterArgs&) const { return "router"; }
  const char* operator()(const ExpertsArgs&) const { return "experts"; }
  const char* operator()(const RopeAppendArgs&) const { return "rope_append"; }
  const char* operator()(const ShortConvolutionArgs&) const { return "short_convolution"; }
  const char* operator()(const L2NormArgs&) const { return "l2_norm"; }
  const char* operator()(const DeltaGatesArgs&) const { return "delta_gates"; }
  const char* operator()(const GatedDeltaArgs&) const { return "gated_delta"; }
  const char* operator()(const GatedRmsNormArgs&) const { return "gated_rms_norm"; }
  const char* operator()(const SplitGateArgs&) const { return "split_gate"; }
  const char* operator()(const SigmoidGateArgs&) const { return "sigmoid_gate"; }
  const char* operator()(const GegluArgs&) const { return "geglu"; }
  const char* operator()(const ScaleArgs&) const { return "scale"; }
  const char* operator()(const SoftcapArgs&) const { return "softcap"; }
};

}  // namespace

const char* op_name(const OpArgs& args) { return std::visit(NameOf{}, args); }

std::vector<tensor::NumberFormat> weight_formats(const OpArgs& args) {
  std::vector<tensor::NumberFormat> formats;
  if (const auto* matmul = std::get_if<MatmulArgs>(&args)) {
    for (int s = 0; s < matmul->segment_count; ++s) formats.push_back(matmul->segments[s].weight.format);
  }
  if (const auto* experts = std::get_if<ExpertsArgs>(&args)) {
    formats = {experts->gate[0].format, experts->up[0].format, experts->down[0].format};
  }
  return formats;
}

Cost op_cost(const Plan& plan, const Op& op, int64_t rows, int64_t wanted, int64_t context) {
  const bool on_wanted = !op.outputs.empty() && plan.info(op.outputs[0]).rows == RowSpace::wanted;
  const int64_t live = on_wanted ? wanted : rows;
  return std::visit(
      [&](const auto& args) -> Cost {
        using Args = std::decay_t<decltype(args)>;
        if constexpr (std::is_same_v<Args, AttentionArgs>) {
          const int64_t visible = args.window > 0 ? std::min<int64_t>(context, args.window) : context;
          return cost(args, rows, rows * visible, std::max<int64_t>(wanted, 1) * visible);
        } else if constexpr (std::is_same_v<Args, RowAttentionArgs>) {
          return cost(args, rows, rows * (rows + 1) / 2);
        } else if constexpr (std::is_same_v<Args, ExpertsArgs>) {
          return cost(args, live, expected_experts(args, live));
        } else {
          return cost(args, live);
        }
      },
      op.args);
}

Cost counted_op_cost(const Plan& plan, const Op& op, int64_t rows, int64_t wanted, int64_t context) {
  const auto* experts = std::get_if<ExpertsArgs>(&op.args);
  if (experts == nullptr || experts->experts_read == nullptr) return op_cost(plan, op, rows, wanted, context);
  return cost(*experts, rows, static_cast<double>(*experts->experts_read));
}

}  // namespace rafter::plan

#include "lab/step_costs.h"

#include <map>
#include <string>

namespace rafter::lab {

StepCosts costs_of(const plan::Plan& plan, int64_t rows, int64_t wanted, int64_t context) {
  StepCosts costs;
  std::map<std::string, int64_t> by_format;
  int64_t most = 0;
  for (const plan::Op& op : plan.ops) {
    const kernels::Cost cost = plan::op_cost(plan, op, rows, wanted, context);
    costs.all.weight_bytes += cost.weight_bytes;
    costs.all.cache_bytes += cost.cache_bytes;
    costs.all.operations += cost.operations;
    const auto* matmul = std::get_if<kernels::MatmulArgs>(&op.args);
    for (int s = 0; matmul != nullptr && s < matmul->segment_count; ++s) {
      const tensor::MatrixView& weight = matmul->segments[s].weight;
      int64_t& bytes = by_format[weight.format.name()];
      bytes += weight.bytes();
      if (bytes > most) most = bytes, costs.main_format = weight.format;
    }
  }
  return costs;
}

}  // namespace rafter::lab

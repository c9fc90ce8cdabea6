#include "plan/print.h"

#include <algorithm>

#include <fmt/format.h>

namespace rafter::plan {
namespace {

using namespace kernels;

std::string shape_of(const Plan& plan, const Op& op, int64_t rows) {
  struct Shape {
    const Plan& plan;
    const Op& op;
    int64_t rows;
    std::string operator()(const EmbedArgs& a) const {
      return fmt::format("[{},{}] of [{},{}]", rows, a.table.columns, a.table.rows, a.table.columns);
    }
    std::string operator()(const RmsNormArgs& a) const {
      return a.groups == 1 ? fmt::format("[{},{}]", rows, a.width)
                           : fmt::format("[{},{},{}]", rows, a.groups, a.width);
    }
    std::string operator()(const MatmulArgs& a) const {
      std::string outputs;
      for (int s = 0; s < a.segment_count; ++s)
        outputs += (s == 0 ? "" : "+") + std::to_string(a.segments[s].weight.rows);
      return fmt::format("[{},{}]x[{},{}]T", rows, a.columns, outputs, a.columns);
    }
    std::string operator()(const RopeAnglesArgs& a) const {
      return fmt::format("[{},{}]", rows, a.rotated_dims);
    }
    std::string operator()(const RopeArgs& a) const {
      return fmt::format("[{},{},{}]", rows, a.heads, a.head_dim);
    }
    std::string operator()(const KvAppendArgs& a) const {
      return fmt::format("2x[{},{},{}]", rows, a.cache.kv_heads, a.cache.head_dim);
    }
    std::string operator()(const AttentionArgs& a) const {
      return fmt::format("[{},{},{}] kv {}", rows, a.heads, a.cache.head_dim, a.cache.kv_heads);
    }
    std::string operator()(const RowAttentionArgs& a) const {
      return fmt::format("[{},{},{}] kv {}", rows, a.heads, a.head_dim, a.kv_heads);
    }
    std::string operator()(const SwigluArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const AddArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const SelectRowsArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const RouterArgs& a) const {
      return fmt::format("[{},{}] of [{},{}]", rows, a.chosen, rows, a.experts);
    }
    std::string operator()(const ExpertsArgs& a) const {
      return fmt::format("[{},{}]x{} of {}x[{},{}]T", rows, a.width, a.chosen, a.experts, a.hidden, a.width);
    }
    std::string operator()(const RopeAppendArgs& a) const {
      return fmt::format("[{},{},{}] kv {}", rows, a.q.heads, a.q.head_dim, a.k.heads);
    }
    std::string operator()(const ShortConvolutionArgs& a) const {
      return fmt::format("[{},{}] over {}", rows, a.state.shape.channels(), a.state.shape.taps);
    }
    std::string operator()(const L2NormArgs& a) const {
      return fmt::format("[{},{},{}]", rows, a.groups, a.width);
    }
    std::string operator()(const DeltaGatesArgs& a) const { return fmt::format("2x[{},{}]", rows, a.heads); }
    std::string operator()(const GatedDeltaArgs& a) const {
      const RecurrentShape& s = a.state.shape;
      return fmt::format("[{},{},{},{}] k {}", rows, s.value_heads, s.value_dim, s.key_dim, s.key_heads);
    }
    std::string operator()(const GatedRmsNormArgs& a) const {
      return fmt::format("[{},{},{}]", rows, a.groups, a.width);
    }
    std::string operator()(const SplitGateArgs& a) const {
      return fmt::format("2x[{},{},{}]", rows, a.heads, a.width);
    }
    std::string operator()(const SigmoidGateArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const GegluArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const ScaleArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
    std::string operator()(const SoftcapArgs& a) const { return fmt::format("[{},{}]", rows, a.width); }
  };
  return std::visit(Shape{plan, op, rows}, op.args);
}

std::string format_of(const KvLayer& cache) {
  if (!cache.has_codes()) return tensor::dtype_name(cache.type);
  return fmt::format("q{}g{}", cache.codes.bits, cache.codes.group_size);
}

std::string formats_of(const Op& op) {
  if (const auto* embed = std::get_if<EmbedArgs>(&op.args)) return embed->table.format.name();
  if (const auto* attention = std::get_if<AttentionArgs>(&op.args)) return format_of(attention->cache);
  if (const auto* append = std::get_if<KvAppendArgs>(&op.args)) return format_of(append->cache);
  if (const auto* append = std::get_if<RopeAppendArgs>(&op.args)) return format_of(append->cache);
  std::string formats;
  for (const tensor::NumberFormat& format : weight_formats(op.args)) {
    formats += (formats.empty() ? "" : " ") + format.name();
  }
  return formats.empty() ? "f32" : formats;
}

bool same_but_for_layer(const StepDescription& a, const StepDescription& b) {
  return a.role == b.role && a.op == b.op && a.kernel == b.kernel && a.shape == b.shape &&
         a.formats == b.formats && a.cost.weight_bytes == b.cost.weight_bytes;
}

// First step of each layer run: how many layers from `begin` on have the same steps.
size_t repeated_layers(const std::vector<StepDescription>& steps, size_t begin, size_t length) {
  size_t repeats = 1;
  for (size_t next = begin + length; next + length <= steps.size(); next += length, ++repeats) {
    const bool same_layer_step =
        steps[next].layer == steps[next + length - 1].layer && steps[next].layer >= 0;
    if (!same_layer_step) break;
    bool same = true;
    for (size_t i = 0; i < length && same; ++i) same = same_but_for_layer(steps[begin + i], steps[next + i]);
    if (!same) break;
  }
  return repeats;
}

size_t layer_length(const std::vector<StepDescription>& steps, size_t begin) {
  size_t end = begin + 1;
  while (end < steps.size() && steps[end].layer == steps[begin].layer) ++end;
  return end - begin;
}

void print_step(const StepDescription& s, std::ostream& out) {
  out << fmt::format("{:>4}{} {:<5} {:<34} {:<13} {:<18} {:<28} {:<16} {:>13} {:>14}\n", s.index,
                     s.barrier ? '|' : ' ', s.layer < 0 ? "-" : std::to_string(s.layer), s.role, s.op,
                     s.kernel, s.shape, s.formats, s.cost.weight_bytes + s.cost.cache_bytes,
                     s.cost.operations);
}

}  // namespace

std::vector<StepDescription> describe(const Plan& plan, int64_t rows, int64_t wanted, int64_t context) {
  std::vector<StepDescription> steps;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const bool on_wanted = !op.outputs.empty() && plan.info(op.outputs[0]).rows == RowSpace::wanted;
    StepDescription s;
    s.index = static_cast<int>(i);
    s.layer = op.layer;
    s.role = op.role;
    s.op = op_name(op.args);
    s.kernel = i < plan.kernels.size() ? plan.kernels[i] : "";
    s.shape = shape_of(plan, op, on_wanted ? wanted : rows);
    s.formats = formats_of(op);
    s.cost = op_cost(plan, op, rows, wanted, context);
    s.barrier = i < plan.barrier_before.size() && plan.barrier_before[i];
    steps.push_back(std::move(s));
  }
  return steps;
}

void print_plan(const Plan& plan, int64_t rows, int64_t context, bool every_layer, std::ostream& out) {
  const std::vector<StepDescription> steps = describe(plan, rows, 1, context);
  out << fmt::format("{:>4}  {:<5} {:<34} {:<13} {:<18} {:<28} {:<16} {:>13} {:>14}\n", "step", "layer",
                     "role", "op", "kernel", "shape", "format", "bytes", "operations");
  Cost total;
  int barriers = 0;
  for (const StepDescription& s : steps) {
    total.weight_bytes += s.cost.weight_bytes;
    total.cache_bytes += s.cost.cache_bytes;
    total.activation_bytes += s.cost.activation_bytes;
    total.operations += s.cost.operations;
    barriers += s.barrier;
  }
  for (size_t i = 0; i < steps.size();) {
    if (every_layer || steps[i].layer < 0) {
      print_step(steps[i++], out);
      continue;
    }
    const size_t length = layer_length(steps, i);
    const size_t repeats = repeated_layers(steps, i, length);
    for (size_t k = 0; k < length; ++k) print_step(steps[i + k], out);
    if (repeats > 1) {
      out << fmt::format("      ... layers {} to {} are the same\n", steps[i].layer + 1,
                         steps[i].layer + static_cast<int32_t>(repeats) - 1);
    }
    i += length * repeats;
  }
  out << fmt::format(
      "{} steps, {} barriers ('|': the team meets before the step); {} row(s), context {}\n"
      "weights {} bytes, cache {} bytes, activations {} bytes, {} operations; activation arena {} bytes\n",
      steps.size(), barriers, rows, context, total.weight_bytes, total.cache_bytes, total.activation_bytes,
      total.operations, plan.arena_bytes);
}

}  // namespace rafter::plan

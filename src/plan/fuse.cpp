#include "plan/fuse.h"

#include <algorithm>
#include <optional>

namespace rafter::plan {
namespace {

using namespace kernels;

// The op list under rewriting. Removed ops leave an empty slot, so that indices stay valid during a pass.
class Rewriter {
 public:
  explicit Rewriter(Plan& plan) : plan_(plan) {
    for (Op& op : plan.ops) slots_.push_back(std::move(op));
    plan.ops.clear();
  }

  size_t size() const { return slots_.size(); }
  bool live(size_t i) const { return slots_[i].has_value(); }
  Op& op(size_t i) { return *slots_[i]; }

  template <typename Args>
  Args* args(size_t i) {
    return live(i) ? std::get_if<Args>(&op(i).args) : nullptr;
  }

  std::optional<size_t> producer(Value value) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!live(i)) continue;
      const auto& outputs = slots_[i]->outputs;
      if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return i;
    }
    return std::nullopt;
  }

  // Ops that read the value.
  std::vector<size_t> readers(Value value) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!live(i)) continue;
      const auto& inputs = slots_[i]->inputs;
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) found.push_back(i);
    }
    return found;
  }

  // Whether the value may vanish: one reader, not an output of the plan, not tapped.
  bool private_to_one_reader(Value value) const {
    if (value == plan_.logits) return false;
    for (const auto& [name, tapped] : plan_.taps) {
      if (tapped == value) return false;
    }
    return readers(value).size() == 1;
  }

  // Puts `fused` into slot `at`; it stands for the ops of `parts`, which leave.
  void replace(size_t at, Op fused, std::vector<size_t> parts) {
    std::sort(parts.begin(), parts.end());
    std::string role;
    for (size_t part : parts) {
      role += (role.empty() ? "" : "+") + op(part).role;
      if (op(part).composition.empty()) {
        fused.composition.push_back(std::move(op(part)));
      } else {
        for (Op& inner : op(part).composition) fused.composition.push_back(std::move(inner));
      }
      slots_[part].reset();
    }
    fused.role = std::move(role);
    slots_[at] = std::move(fused);
  }

  void finish() {
    for (auto& slot : slots_) {
      if (slot) plan_.ops.push_back(std::move(*slot));
    }
  }

 private:
  Plan& plan_;
  std::vector<std::optional<Op>> slots_;
};

// A new op with everything of `model` but its composition, which replace() fills in.
Op without_composition(const Op& model) {
  Op op = model;
  op.composition.clear();
  return op;
}

void fuse_rope_append(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    auto* append = r.args<KvAppendArgs>(i);
    if (append == nullptr) continue;
    const Value k = r.op(i).inputs[0], v = r.op(i).inputs[1], token = r.op(i).outputs[0];
    auto k_rope = r.producer(k);
    const std::vector<size_t> readers = r.readers(token);
    // Of several readers (layers that share these keys and values) the first is this layer's own.
    if (!k_rope || r.args<RopeArgs>(*k_rope) == nullptr || !r.private_to_one_reader(k) || readers.empty())
      continue;
    if (r.args<AttentionArgs>(readers[0]) == nullptr) continue;
    const Value q = r.op(readers[0]).inputs[0];
    auto q_rope = r.producer(q);
    if (!q_rope || r.args<RopeArgs>(*q_rope) == nullptr || *q_rope > i) continue;
    if (r.op(*q_rope).inputs[1] != r.op(*k_rope).inputs[1]) continue;  // the same angles

    RopeAppendArgs args;
    args.q = *r.args<RopeArgs>(*q_rope);
    args.k = *r.args<RopeArgs>(*k_rope);
    args.cache = append->cache;
    Op fused = without_composition(r.op(i));
    fused.args = args;
    fused.inputs = {r.op(*q_rope).inputs[0], r.op(*k_rope).inputs[0], v, r.op(*k_rope).inputs[1]};
    fused.outputs = {q, token};
    r.replace(i, std::move(fused), {*q_rope, *k_rope, i});
  }
}

void merge_matmuls_of_one_input(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    auto* first = r.args<MatmulArgs>(i);
    if (first == nullptr || first->segment_count != 1) continue;
    MatmulArgs merged = *first;
    Op fused = without_composition(r.op(i));
    std::vector<size_t> parts = {i};
    for (size_t j : r.readers(r.op(i).inputs[0])) {
      auto* other = r.args<MatmulArgs>(j);
      if (j == i || other == nullptr || other->segment_count != 1) continue;
      if (other->precision != merged.precision) continue;
      if (merged.segment_count == MatmulArgs::kMaxSegments) break;
      merged.segments[merged.segment_count++] = other->segments[0];
      fused.outputs.push_back(r.op(j).outputs[0]);
      parts.push_back(j);
    }
    if (parts.size() == 1) continue;
    fused.args = merged;
    r.replace(i, std::move(fused), std::move(parts));
  }
}

void fuse_gated_activation(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    const bool is_geglu = r.args<GegluArgs>(i) != nullptr;
    if (!is_geglu && r.args<SwigluArgs>(i) == nullptr) continue;
    const Value gate = r.op(i).inputs[0], up = r.op(i).inputs[1];
    auto source = r.producer(gate);
    auto* matmul = source ? r.args<MatmulArgs>(*source) : nullptr;
    if (matmul == nullptr || r.op(*source).outputs != std::vector<Value>{gate, up}) continue;
    if (!r.private_to_one_reader(gate) || !r.private_to_one_reader(up)) continue;
    MatmulArgs args = *matmul;
    args.epilogue = is_geglu ? MatmulEpilogue::geglu : MatmulEpilogue::swiglu;
    Op fused = without_composition(r.op(*source));
    fused.args = args;
    fused.outputs = r.op(i).outputs;
    r.replace(*source, std::move(fused), {*source, i});
  }
}

void fuse_norm(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    auto* matmul = r.args<MatmulArgs>(i);
    if (matmul == nullptr || matmul->norm_weight != nullptr) continue;
    const Value x = r.op(i).inputs[0];
    auto source = r.producer(x);
    auto* norm = source ? r.args<RmsNormArgs>(*source) : nullptr;
    if (norm == nullptr || norm->groups != 1 || norm->weight == nullptr || !r.private_to_one_reader(x))
      continue;
    MatmulArgs args = *matmul;
    args.norm_weight = norm->weight;
    args.norm_epsilon = norm->epsilon;
    Op fused = without_composition(r.op(i));
    fused.args = args;
    fused.inputs[0] = r.op(*source).inputs[0];
    r.replace(i, std::move(fused), {*source, i});
  }
}

void fuse_residual_add(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    if (r.args<AddArgs>(i) == nullptr) continue;
    const Value residual = r.op(i).inputs[0], product = r.op(i).inputs[1];
    auto source = r.producer(product);
    auto* matmul = source ? r.args<MatmulArgs>(*source) : nullptr;
    if (matmul == nullptr || matmul->segment_count != 1 || matmul->epilogue != MatmulEpilogue::store)
      continue;
    if (!r.private_to_one_reader(product)) continue;
    MatmulArgs args = *matmul;
    args.epilogue = MatmulEpilogue::add;
    Op fused = without_composition(r.op(*source));
    fused.args = args;
    fused.inputs.push_back(residual);
    fused.outputs = r.op(i).outputs;
    r.replace(i, std::move(fused), {*source, i});
  }
}

// residual + norm, and a scale of the sum if there is one.
void fuse_norm_residual(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    if (r.args<AddArgs>(i) == nullptr) continue;
    const Value residual = r.op(i).inputs[0], normed = r.op(i).inputs[1];
    auto source = r.producer(normed);
    auto* norm = source ? r.args<RmsNormArgs>(*source) : nullptr;
    if (norm == nullptr || norm->groups != 1 || norm->weight == nullptr || residual == normed) continue;
    if (!r.private_to_one_reader(normed)) continue;
    Op fused = without_composition(r.op(i));
    RmsNormArgs args = *norm;
    args.adds_residual = true;
    fused.inputs = {r.op(*source).inputs[0], residual};
    std::vector<size_t> parts = {*source, i};
    size_t at = i;
    if (const Value sum = r.op(i).outputs[0]; r.private_to_one_reader(sum)) {
      const size_t reader = r.readers(sum)[0];
      if (const auto* scale = r.args<ScaleArgs>(reader)) {
        args.scale = scale->factor;
        fused.outputs = r.op(reader).outputs;
        parts.push_back(reader);
        at = reader;
      }
    }
    fused.args = args;
    r.replace(at, std::move(fused), std::move(parts));
  }
}

}  // namespace

bool is_fused(const Op& op) { return !op.composition.empty(); }

void fuse(Plan& plan) {
  Rewriter rewriter(plan);
  fuse_rope_append(rewriter);
  merge_matmuls_of_one_input(rewriter);
  fuse_gated_activation(rewriter);
  fuse_norm(rewriter);
  fuse_residual_add(rewriter);
  fuse_norm_residual(rewriter);
  rewriter.finish();
}

void expand(Plan& plan, const std::function<bool(const Op&)>& keep) {
  std::vector<Op> ops;
  for (Op& op : plan.ops) {
    if (!is_fused(op) || keep(op)) {
      ops.push_back(std::move(op));
    } else {
      for (Op& part : op.composition) ops.push_back(std::move(part));
    }
  }
  plan.ops = std::move(ops);
}

}  // namespace rafter::plan

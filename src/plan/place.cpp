#include "plan/place.h"

#include <algorithm>

#include "base/check.h"

namespace rafter::plan {
namespace {

using namespace kernels;

struct Interval {
  int64_t begin = 0, end = 0;
  bool overlaps(const Interval& other) const { return begin < other.end && other.begin < end; }
};

// The input whose buffer output 0 may take over (the kernels' contracts name it), or −1.
int overwritable_input(const OpArgs& args) {
  if (std::holds_alternative<RmsNormArgs>(args) || std::holds_alternative<RopeArgs>(args) ||
      std::holds_alternative<SwigluArgs>(args) || std::holds_alternative<AddArgs>(args) ||
      std::holds_alternative<ExpertsArgs>(args) || std::holds_alternative<RopeAppendArgs>(args) ||
      std::holds_alternative<L2NormArgs>(args) || std::holds_alternative<GatedRmsNormArgs>(args) ||
      std::holds_alternative<SigmoidGateArgs>(args) || std::holds_alternative<GegluArgs>(args) ||
      std::holds_alternative<ScaleArgs>(args) || std::holds_alternative<SoftcapArgs>(args)) {
    return 0;
  }
  const auto* matmul = std::get_if<MatmulArgs>(&args);
  return matmul != nullptr && matmul->epilogue == MatmulEpilogue::add ? 1 : -1;
}

class Arena {
 public:
  int64_t allocate(int64_t bytes) {
    int64_t offset = 0;
    for (const Interval& used : used_) {  // sorted by begin
      if (offset + bytes <= used.begin) break;
      offset = std::max(offset, used.end);
    }
    used_.insert(std::upper_bound(used_.begin(), used_.end(), offset,
                                  [](int64_t value, const Interval& used) { return value < used.begin; }),
                 {offset, offset + bytes});
    high_water_ = std::max(high_water_, offset + bytes);
    return offset;
  }

  void release(int64_t offset) {
    auto found =
        std::find_if(used_.begin(), used_.end(), [&](const Interval& used) { return used.begin == offset; });
    RAFTER_CHECK(found != used_.end(), "no buffer at {}", offset);
    used_.erase(found);
  }

  int64_t high_water() const { return high_water_; }

 private:
  std::vector<Interval> used_;
  int64_t high_water_ = 0;
};

void assign_offsets(Plan& plan) {
  const size_t count = plan.values.size();
  constexpr int kForever = 1 << 30;
  std::vector<int> last_use(count, -1);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (Value value : plan.ops[i].inputs) last_use[value.id] = static_cast<int>(i);
  }
  if (plan.logits.valid()) last_use[plan.logits.id] = kForever;
  for (const auto& [name, value] : plan.taps) last_use[value.id] = kForever;

  plan.offsets.assign(count, -1);
  Arena arena;
  std::vector<bool> written(count, false);
  for (const Op& op : plan.ops) {
    for (Value value : op.outputs) written[value.id] = true;
  }
  for (const auto& [name, value] : plan.taps) {  // the caller's inputs are there before the first op
    if (!written[value.id]) plan.offsets[value.id] = arena.allocate(value_bytes(plan, value));
  }

  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const int now = static_cast<int>(i);
    std::vector<Value> dying;
    for (Value value : op.inputs) {
      if (last_use[value.id] == now && std::find(dying.begin(), dying.end(), value) == dying.end()) {
        dying.push_back(value);
      }
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const Value out = op.outputs[k];
      const int from = k == 0 ? overwritable_input(op.args) : -1;
      const Value source = from >= 0 ? op.inputs[from] : Value{};
      const bool read_once = std::count(op.inputs.begin(), op.inputs.end(), source) == 1;
      auto dies = std::find(dying.begin(), dying.end(), source);
      if (source.valid() && read_once && dies != dying.end() &&
          value_bytes(plan, source) == value_bytes(plan, out)) {
        plan.offsets[out.id] = plan.offsets[source.id];
        dying.erase(dies);
      } else {
        plan.offsets[out.id] = arena.allocate(value_bytes(plan, out));
      }
    }
    for (Value value : dying) arena.release(plan.offsets[value.id]);
    for (Value value : op.outputs) {  // written and never read
      if (last_use[value.id] == -1) arena.release(plan.offsets[value.id]);
    }
  }
  plan.arena_bytes = arena.high_water();
}

void assign_barriers(Plan& plan, const std::function<bool(const Op&)>& uses_shared_scratch) {
  // What ops since the last barrier touched. Tokens have an interval of their own in the arena, so the cache
  // needs no case here.
  std::vector<Interval> read, written;
  bool scratch_used = false;
  auto interval = [&](Value value) {
    return Interval{plan.offsets[value.id], plan.offsets[value.id] + value_bytes(plan, value)};
  };
  auto any_overlap = [](const std::vector<Interval>& set, const Interval& one) {
    return std::any_of(set.begin(), set.end(), [&](const Interval& other) { return other.overlaps(one); });
  };

  plan.barrier_before.assign(plan.ops.size(), false);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const bool scratch = uses_shared_scratch(op);
    bool conflict = scratch && scratch_used;
    for (Value value : op.inputs) conflict = conflict || any_overlap(written, interval(value));
    for (Value value : op.outputs) {
      conflict = conflict || any_overlap(written, interval(value)) || any_overlap(read, interval(value));
    }
    if (conflict) {
      plan.barrier_before[i] = true;
      read.clear(), written.clear();
      scratch_used = false;
    }
    for (Value value : op.inputs) read.push_back(interval(value));
    for (Value value : op.outputs) written.push_back(interval(value));
    scratch_used = scratch_used || scratch;
  }
}

}  // namespace

int64_t value_bytes(const Plan& plan, Value value) {
  const int64_t bytes = plan.capacity * plan.info(value).width * 4;
  return std::max<int64_t>((bytes + 63) / 64 * 64, 64);
}

void place(Plan& plan, const std::function<bool(const Op&)>& uses_shared_scratch) {
  assign_offsets(plan);
  assign_barriers(plan, uses_shared_scratch);
}

}  // namespace rafter::plan

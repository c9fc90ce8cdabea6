#include "engine/exec_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/check.h"
#include "engine/progress.h"
#include "plan/fuse.h"
#include "plan/place.h"

namespace rafter::engine {

using namespace kernels;

class HostExecutor::TeamWorker final : public Worker {
 public:
  TeamWorker(int index, base::WorkerTeam& team) : Worker(index, team.size()), team_(team) {}
  void barrier() override { team_.barrier(); }

 private:
  base::WorkerTeam& team_;
};

namespace {

constinit std::atomic<uint64_t> count_of_ops{0};

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The kernel that an op's argument type gets from a table; matmul and rope_append are chosen in bind_op.
struct KernelOf {
  const KernelTable& table;
  auto operator()(const EmbedArgs&) const { return table.embed; }
  auto operator()(const RmsNormArgs& args) const {
    return args.adds_residual ? table.fused_rms_norm : table.rms_norm;
  }
  auto operator()(const RopeAnglesArgs&) const { return table.rope_angles; }
  auto operator()(const RopeArgs&) const { return table.rope; }
  auto operator()(const KvAppendArgs&) const { return table.kv_append; }
  auto operator()(const AttentionArgs&) const { return table.attention; }
  auto operator()(const RowAttentionArgs&) const { return table.row_attention; }
  auto operator()(const SwigluArgs&) const { return table.swiglu; }
  auto operator()(const AddArgs&) const { return table.add; }
  auto operator()(const SelectRowsArgs&) const { return table.select_rows; }
  auto operator()(const RouterArgs&) const { return table.router; }
  auto operator()(const ExpertsArgs&) const { return table.experts; }
  auto operator()(const RopeAppendArgs&) const { return table.rope_append; }
  auto operator()(const ShortConvolutionArgs&) const { return table.short_convolution; }
  auto operator()(const L2NormArgs&) const { return table.l2_norm; }
  auto operator()(const DeltaGatesArgs&) const { return table.delta_gates; }
  auto operator()(const GatedDeltaArgs&) const { return table.gated_delta; }
  auto operator()(const GatedRmsNormArgs&) const { return table.gated_rms_norm; }
  auto operator()(const SplitGateArgs&) const { return table.split_gate; }
  auto operator()(const SigmoidGateArgs&) const { return table.sigmoid_gate; }
  auto operator()(const GegluArgs&) const { return table.geglu; }
  auto operator()(const ScaleArgs&) const { return table.scale; }
  auto operator()(const SoftcapArgs&) const { return table.softcap; }
};

// Fills in addresses: `in(i)` and `out(i)` are the buffers of the op's i-th input and output (the order is in
// plan.h).
struct AddressFiller {
  const plan::Op& op;
  const StepInput* input;
  const int32_t* rows;
  const cache::KvCache& kv;
  const cache::RecurrentStore* states;
  int64_t* experts_read;  // of this op
  const std::function<float*(plan::Value)>& buffer;

  RecurrentLayer state(const RecurrentLayer& shaped) const {
    return op.cache_layer >= 0 ? states->layer(op.cache_layer) : shaped;
  }
  float* in(size_t i) const { return buffer(op.inputs[i]); }
  float* out(size_t i = 0) const { return buffer(op.outputs[i]); }

  void operator()(EmbedArgs& a) const { a.input = input, a.out = out(); }
  void operator()(RmsNormArgs& a) const {
    a.rows = rows, a.x = in(0), a.out = out();
    if (a.adds_residual) a.residual = in(1);
  }
  void operator()(MatmulArgs& a) const {
    a.rows = rows, a.x = in(0);
    if (a.epilogue == MatmulEpilogue::add) a.residual = in(1);
    const int outputs = is_gated(a.epilogue) ? 1 : a.segment_count;
    for (int s = 0; s < outputs; ++s) a.segments[s].out = out(static_cast<size_t>(s));
  }
  void operator()(RopeAnglesArgs& a) const { a.input = input, a.out = out(); }
  void operator()(RopeArgs& a) const { a.rows = rows, a.x = in(0), a.angles = in(1), a.out = out(); }
  void operator()(KvAppendArgs& a) const {
    a.input = input, a.k = in(0), a.v = in(1), a.cache = kv.layer(op.cache_layer);
  }
  void operator()(AttentionArgs& a) const {
    a.input = input, a.q = in(0), a.out = out(), a.cache = kv.layer(op.cache_layer);
  }
  void operator()(RowAttentionArgs& a) const {
    a.input = input, a.q = in(0), a.k = in(1), a.v = in(2), a.out = out();
  }
  void operator()(SwigluArgs& a) const { a.rows = rows, a.gate = in(0), a.up = in(1), a.out = out(); }
  void operator()(AddArgs& a) const { a.rows = rows, a.a = in(0), a.b = in(1), a.out = out(); }
  void operator()(SelectRowsArgs& a) const { a.input = input, a.x = in(0), a.out = out(); }
  void operator()(RouterArgs& a) const {
    a.rows = rows, a.logits = in(0), a.routes = reinterpret_cast<Route*>(out());
  }
  void operator()(ExpertsArgs& a) const {
    a.rows = rows, a.x = in(0), a.routes = reinterpret_cast<const Route*>(in(1)), a.out = out();
    a.experts_read = experts_read;
  }
  void operator()(RopeAppendArgs& a) const {
    a.input = input, a.cache = kv.layer(op.cache_layer);
    a.q.rows = a.k.rows = rows;
    a.q.x = in(0), a.q.out = out(0), a.k.x = in(1), a.v = in(2);
    a.q.angles = a.k.angles = in(3);
  }
  void operator()(ShortConvolutionArgs& a) const {
    a.runs = input->recurrent, a.state = state(a.state), a.x = in(0);
    a.q = out(0), a.k = out(1), a.v = out(2);
  }
  void operator()(L2NormArgs& a) const { a.rows = rows, a.x = in(0), a.out = out(); }
  void operator()(DeltaGatesArgs& a) const { a.rows = rows, a.alpha = in(0), a.beta = in(1), a.out = out(); }
  void operator()(GatedDeltaArgs& a) const {
    a.runs = input->recurrent, a.state = state(a.state);
    a.q = in(0), a.k = in(1), a.v = in(2), a.gates = in(3), a.out = out();
  }
  void operator()(GatedRmsNormArgs& a) const { a.rows = rows, a.x = in(0), a.gate = in(1), a.out = out(); }
  void operator()(SplitGateArgs& a) const { a.rows = rows, a.x = in(0), a.query = out(0), a.gate = out(1); }
  void operator()(SigmoidGateArgs& a) const { a.rows = rows, a.x = in(0), a.gate = in(1), a.out = out(); }
  void operator()(GegluArgs& a) const { a.rows = rows, a.gate = in(0), a.up = in(1), a.out = out(); }
  void operator()(ScaleArgs& a) const { a.rows = rows, a.x = in(0), a.out = out(); }
  void operator()(SoftcapArgs& a) const { a.rows = rows, a.x = in(0), a.out = out(); }
};

}  // namespace

HostExecutor::HostExecutor(const KernelTable& table, base::WorkerTeam& team, const cache::KvCache& cache,
                           const cache::RecurrentStore* states)
    : table_(table), team_(team), cache_(cache), states_(states) {
  for (int index = 0; index < team.size(); ++index)
    workers_.push_back(std::make_unique<TeamWorker>(index, team));
}

HostExecutor::~HostExecutor() = default;

KernelTable::Scratch HostExecutor::scratch_of(const plan::Op& op, int64_t capacity,
                                              int64_t max_positions) const {
  if (const auto* matmul = std::get_if<MatmulArgs>(&op.args);
      matmul != nullptr && table_.matmul_scratch != nullptr) {
    return table_.matmul_scratch(*matmul, capacity);
  }
  if (const auto* attention = std::get_if<AttentionArgs>(&op.args);
      attention != nullptr && table_.attention_scratch != nullptr) {
    return table_.attention_scratch(*attention, capacity, max_positions);
  }
  if (const auto* delta = std::get_if<GatedDeltaArgs>(&op.args);
      delta != nullptr && table_.gated_delta_scratch != nullptr) {
    return table_.gated_delta_scratch(*delta);
  }
  if (const auto* experts = std::get_if<ExpertsArgs>(&op.args);
      experts != nullptr && table_.experts_scratch != nullptr) {
    return table_.experts_scratch(*experts, capacity);
  }
  return {};
}

base::Result<std::unique_ptr<HostExecutor::Bound>> HostExecutor::bind(plan::Plan plan, const StepInput* input,
                                                                      int64_t max_positions) {
  plan::expand(plan, [&](const plan::Op& op) {
    if (std::holds_alternative<MatmulArgs>(op.args)) return table_.fused_matmul != nullptr;
    if (std::holds_alternative<RmsNormArgs>(op.args)) return table_.fused_rms_norm != nullptr;
    return table_.rope_append != nullptr;
  });
  auto bound = std::make_unique<Bound>();
  bound->plan_ = std::move(plan);
  plan::Plan& p = bound->plan_;
  for (plan::Op& op : p.ops) {  // before placement: scratch sizes depend on the cache's type
    if (auto* attention = std::get_if<AttentionArgs>(&op.args))
      attention->cache = cache_.layer(op.cache_layer);
    for (const tensor::NumberFormat& format : plan::weight_formats(op.args)) {
      if (table_.supports_format != nullptr && !table_.supports_format(format)) {
        return base::Error{base::ErrorCode::unsupported,
                           fmt::format("the {} kernels cannot read {}", table_.name, format.name()), op.role,
                           "try --executor reference"};
      }
    }
    const KernelTable::Scratch scratch = scratch_of(op, p.capacity, max_positions);
    bound->scratch_per_worker_ = std::max(bound->scratch_per_worker_, round_up(scratch.per_worker));
    bound->scratch_shared_ = std::max(bound->scratch_shared_, round_up(scratch.shared));
  }
  plan::place(p, [&](const plan::Op& op) { return scratch_of(op, p.capacity, max_positions).shared > 0; });
  RAFTER_ASSIGN(bound->arena_, device::HostMemory::reserve(static_cast<size_t>(p.arena_bytes)));
  RAFTER_TRY(ensure_scratch(bound->scratch_per_worker_, bound->scratch_shared_));

  bound->steps_.resize(p.ops.size());
  bound->experts_read_.assign(p.ops.size(), 0);
  bound->cursors_ = std::vector<Worker::Cursor>(p.ops.size() * Worker::kPhases);
  p.kernels.resize(p.ops.size());
  for (size_t i = 0; i < p.ops.size(); ++i) bind_op(*bound, i, input);
  return bound;
}

void HostExecutor::bind_op(Bound& bound, size_t index, const StepInput* input) {
  plan::Plan& p = bound.plan_;
  plan::Op& op = p.ops[index];
  const bool on_wanted = p.info(op.outputs[0]).rows == plan::RowSpace::wanted;
  const std::function<float*(plan::Value)> buffer = [&](plan::Value value) { return bound.data(value); };
  const int32_t* rows = on_wanted ? &input->wanted_rows : &input->rows;
  std::visit(AddressFiller{op, input, rows, cache_, states_, &bound.experts_read_[index], buffer}, op.args);

  Bound::Step& step = bound.steps_[index];
  step.barrier_before = p.barrier_before[index];
  std::visit(
      [&](auto& args) {
        using Args = std::decay_t<decltype(args)>;
        void (*kernel)(const Args&, Worker&) = nullptr;
        if constexpr (std::is_same_v<Args, MatmulArgs>) {
          kernel = plan::is_fused(op) ? table_.fused_matmul : table_.matmul;
        } else {
          kernel = KernelOf{table_}(args);
        }
        const std::vector<tensor::NumberFormat> formats = plan::weight_formats(op.args);
        p.kernels[index] = formats.empty() || table_.matmul_kernel_name == nullptr
                               ? plan::op_name(op.args)
                               : table_.matmul_kernel_name(formats[0], p.capacity);
        RAFTER_CHECK(kernel != nullptr, "the {} kernels have no {}", table_.name, plan::op_name(op.args));
        step.args = &args;
        step.kernel = reinterpret_cast<void (*)()>(kernel);
        step.run = [](const Bound::Step& s, Worker& worker) {
          reinterpret_cast<void (*)(const Args&, Worker&)>(s.kernel)(*static_cast<const Args*>(s.args),
                                                                     worker);
        };
      },
      op.args);
}

base::Status HostExecutor::ensure_scratch(size_t per_worker, size_t shared) {
  if (per_worker <= scratch_per_worker_ && shared <= scratch_shared_) return {};
  per_worker = std::max(per_worker, scratch_per_worker_);
  shared = std::max(shared, scratch_shared_);
  RAFTER_ASSIGN(scratch_, device::HostMemory::reserve(shared + per_worker * workers_.size()));
  scratch_per_worker_ = per_worker;
  scratch_shared_ = shared;
  const std::span<std::byte> all = scratch_.bytes();
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->set_memory(all.subspan(shared + i * per_worker, per_worker), all.first(shared));
  }
  return {};
}

uint64_t ops_done() { return count_of_ops.load(std::memory_order_relaxed); }

base::Status HostExecutor::run_blocking(Bound& bound) {
  for (Worker::Cursor& cursor : bound.cursors_) cursor.next.store(0, std::memory_order_relaxed);
  team_.run_blocking([&](int index) {
    Worker& worker = *workers_[static_cast<size_t>(index)];
    for (size_t i = 0; i < bound.steps_.size(); ++i) {
      const Bound::Step& step = bound.steps_[i];
      if (step.barrier_before) worker.barrier();
      worker.set_cursors(&bound.cursors_[i * Worker::kPhases]);
      step.run(step, worker);
      if (index == 0) count_of_ops.fetch_add(1, std::memory_order_relaxed);
    }
  });
  return {};
}

base::Status HostExecutor::run_profiled_blocking(Bound& bound, StepProfile& profile) {
  for (Worker::Cursor& cursor : bound.cursors_) cursor.next.store(0, std::memory_order_relaxed);
  profile.workers = team_.size();
  profile.ops = static_cast<int>(bound.steps_.size());
  profile.spans.assign(bound.steps_.size() * workers_.size(), {});
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [start] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
        .count();
  };
  team_.run_blocking([&](int index) {
    Worker& worker = *workers_[static_cast<size_t>(index)];
    StepProfile::Span* span = &profile.spans[static_cast<size_t>(index) * bound.steps_.size()];
    for (size_t i = 0; i < bound.steps_.size(); ++i, ++span) {
      const Bound::Step& step = bound.steps_[i];
      span->arrived = elapsed();
      if (step.barrier_before) worker.barrier();
      worker.set_cursors(&bound.cursors_[i * Worker::kPhases]);
      span->begin = step.barrier_before ? elapsed() : span->arrived;
      step.run(step, worker);
      span->end = elapsed();
    }
  });
  profile.region_ns = elapsed();
  return {};
}

}  // namespace rafter::engine

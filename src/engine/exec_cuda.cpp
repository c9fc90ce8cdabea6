#include "engine/exec_cuda.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "plan/fuse.h"
#include "plan/place.h"

namespace rafter::engine {

using namespace kernels;

class CudaExecutor::Bound final : public BoundPlan {
 public:
  const plan::Plan& plan() const override { return plan_; }
  const float* values(plan::Value value) override {
    if (staged_logits_ != nullptr && value == plan_.logits) return staged_logits_;
    return reinterpret_cast<const float*>(host_.data() + plan_.offsets[static_cast<size_t>(value.id)]);
  }
  float* device_values(plan::Value value) const {
    return reinterpret_cast<float*>(arena_.data() + plan_.offsets[static_cast<size_t>(value.id)]);
  }

  plan::Plan plan_;
  const StepInput* input_ = nullptr;  // the host's
  device::GpuMemory arena_, scratch_;
  device::HostMemory host_;                // mirrors the arena where logits and taps are
  device::GpuGraph graph_, greedy_graph_;  // the second is captured when it is first needed
  int64_t max_positions_ = 0;
  const float* staged_logits_ = nullptr;  // the last run's logits, if they fitted into pinned memory
  std::vector<plan::Value> read_back_;
};

namespace {

constexpr size_t kAlignment = 256;
size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The input block on the device: the header, then six arrays of row_capacity entries.
constexpr size_t kHeaderBytes = kAlignment;
static_assert(sizeof(StepInput) <= kAlignment);

// Logits of a step that wants at most so many go to pinned memory, which the device writes without a detour.
constexpr int32_t kStagedRows = 16;

// The kernel of an op's arguments; null if the back end has none.
struct LauncherOf {
  const CudaKernels& table;
  auto operator()(const EmbedArgs&) const { return table.embed; }
  auto operator()(const RmsNormArgs&) const { return table.rms_norm; }
  auto operator()(const MatmulArgs&) const { return table.matmul; }
  auto operator()(const RopeAnglesArgs&) const { return table.rope_angles; }
  auto operator()(const RopeArgs&) const { return table.rope; }
  auto operator()(const KvAppendArgs&) const { return table.kv_append; }
  auto operator()(const RopeAppendArgs&) const { return table.rope_append; }
  auto operator()(const AttentionArgs&) const { return table.attention; }
  auto operator()(const SwigluArgs&) const { return table.swiglu; }
  auto operator()(const AddArgs&) const { return table.add; }
  auto operator()(const SelectRowsArgs&) const { return table.select_rows; }
  template <typename Args>
  auto operator()(const Args&) const {
    return static_cast<void (*)(const Args&, const CudaLaunch&)>(nullptr);
  }
};

}  // namespace

base::Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(const device::GpuInfo& gpu,
                                                                 cache::KvCache& cache,
                                                                 const Options& options) {
  if (cuda_kernels() == nullptr)
    return base::Error{base::ErrorCode::unsupported, "this build has no CUDA", "--device",
                       "use --device cpu"};
  if (gpu.shared_bytes < kLeastSharedBytes) {
    return base::Error{base::ErrorCode::unsupported,
                       fmt::format("the kernels need {} bytes of shared memory in a block and {} has {}",
                                   kLeastSharedBytes, gpu.name, gpu.shared_bytes),
                       "--device", "use --device cpu"};
  }
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(cache, gpu, options));
  CudaExecutor& e = *executor;
  RAFTER_ASSIGN(e.stream_, device::GpuStream::create());
  for (size_t kind = 0; kind < cache.kinds(); ++kind) {
    const cache::BlockStore& store = cache.store(kind);
    RAFTER_ASSIGN(auto memory,
                  device::GpuMemory::allocate(static_cast<size_t>(store.block_bytes()) * store.capacity()));
    e.stores_.push_back(std::move(memory));
  }
  const size_t input_bytes = kHeaderBytes + 6 * round_up(static_cast<size_t>(options.row_capacity) * 4);
  RAFTER_ASSIGN(e.input_memory_, device::GpuMemory::allocate(input_bytes));
  RAFTER_ASSIGN(e.counters_, device::GpuMemory::allocate(kLaunchCounters * sizeof(int32_t)));
  RAFTER_TRY(e.stream_.fill_zero(e.counters_.data(), e.counters_.size()));
  const size_t token_bytes = static_cast<size_t>(options.row_capacity) * sizeof(int32_t);
  RAFTER_ASSIGN(e.tokens_, device::GpuMemory::allocate(token_bytes));
  for (TokenSlot& slot : e.token_slots_) {
    RAFTER_ASSIGN(slot.tokens, device::PinnedMemory::allocate(token_bytes));
    RAFTER_ASSIGN(slot.written, device::GpuEvent::create());
  }
  RAFTER_ASSIGN(e.input_staging_, device::PinnedMemory::allocate(input_bytes));
  for (size_t kind = 0; kind < cache.kinds(); ++kind) {
    cache.store(kind).set_copier([&e, kind](int32_t from, int32_t to) {
      const auto bytes = static_cast<size_t>(e.kv_.store(kind).block_bytes());
      std::byte* const memory = e.stores_[kind].data();
      base::Status status = e.stream_.copy_on_device(memory + bytes * static_cast<size_t>(to),
                                                     memory + bytes * static_cast<size_t>(from), bytes);
      if (!status.ok() && !e.fault_) e.fault_ = status.error();
    });
  }
  return executor;
}

CudaExecutor::~CudaExecutor() {
  for (size_t kind = 0; kind < kv_.kinds(); ++kind) kv_.store(kind).set_copier(nullptr);
}

base::Status CudaExecutor::upload(const void* host, size_t bytes) {
  if (host == nullptr || bytes == 0 || weights_.contains(host)) return {};
  RAFTER_ASSIGN(auto memory, device::GpuMemory::allocate(round_up(bytes)));
  RAFTER_TRY(stream_.copy_to_device(memory.data(), host, bytes));
  weight_bytes_ += static_cast<int64_t>(bytes);
  weights_.emplace(host, std::move(memory));
  return {};
}

base::Status CudaExecutor::upload_operands(const plan::Plan& plan) {
  const CudaKernels& table = *cuda_kernels();
  device::GpuMemory staging[3];  // data, scales, biases as in the file
  const auto stage = [&](size_t i, const std::byte* host, size_t bytes) -> base::Result<const std::byte*> {
    if (host == nullptr) return nullptr;
    if (staging[i].size() < bytes) {
      RAFTER_TRY(stream_.synchronize_blocking());
      staging[i] = {};
      RAFTER_ASSIGN(staging[i], device::GpuMemory::allocate(bytes));
    }
    RAFTER_TRY(stream_.copy_to_device(staging[i].data(), host, bytes));
    return staging[i].data();
  };
  const auto matrix = [&](const tensor::MatrixView& w) -> base::Status {
    if (weights_.contains(w.data)) return {};
    if (const size_t bytes = table.relaid_bytes(w); bytes > 0) {
      RAFTER_ASSIGN(auto memory, device::GpuMemory::allocate(bytes));
      tensor::MatrixView from = w;
      RAFTER_ASSIGN(from.data, stage(0, w.data, static_cast<size_t>(w.rows * w.format.row_bytes(w.columns))));
      RAFTER_ASSIGN(from.scales,
                    stage(1, w.scales, static_cast<size_t>(w.rows * w.format.scale_row_bytes(w.columns))));
      RAFTER_ASSIGN(from.biases,
                    stage(2, w.biases, static_cast<size_t>(w.rows * w.format.bias_row_bytes(w.columns))));
      CudaLaunch launch;
      launch.stream = stream_.handle(), launch.multiprocessors = gpu_.multiprocessors;
      table.relay(from, memory.data(), launch);
      RAFTER_TRY(stream_.check_launches("re-laying a matrix"));
      weight_bytes_ += static_cast<int64_t>(bytes);
      weights_.emplace(w.data, std::move(memory));
      return {};
    }
    RAFTER_TRY(upload(w.data, static_cast<size_t>(w.rows * w.format.row_bytes(w.columns))));
    RAFTER_TRY(upload(w.scales, static_cast<size_t>(w.rows * w.format.scale_row_bytes(w.columns))));
    return upload(w.biases, static_cast<size_t>(w.rows * w.format.bias_row_bytes(w.columns)));
  };
  for (const plan::Op& op : plan.ops) {
    if (const auto* embed = std::get_if<EmbedArgs>(&op.args)) RAFTER_TRY(matrix(embed->table));
    if (const auto* norm = std::get_if<RmsNormArgs>(&op.args))
      RAFTER_TRY(upload(norm->weight, static_cast<size_t>(norm->width) * 4));
    if (const auto* angles = std::get_if<RopeAnglesArgs>(&op.args))
      RAFTER_TRY(upload(angles->frequencies, static_cast<size_t>(angles->rotated_dims) / 2 * 4));
    const auto* matmul = std::get_if<MatmulArgs>(&op.args);
    if (matmul == nullptr) continue;
    RAFTER_TRY(upload(matmul->norm_weight, static_cast<size_t>(matmul->columns) * 4));
    for (int s = 0; s < matmul->segment_count; ++s) {
      const MatmulSegment& segment = matmul->segments[s];
      RAFTER_TRY(matrix(segment.weight));
      RAFTER_TRY(upload(segment.bias, static_cast<size_t>(segment.weight.rows) * 4));
    }
  }
  return stream_.synchronize_blocking();  // the staging goes
}

template <typename T>
const T* CudaExecutor::on_device(const T* host) const {
  if (host == nullptr) return nullptr;
  return reinterpret_cast<const T*>(weights_.at(host).data());
}

tensor::MatrixView CudaExecutor::on_device(tensor::MatrixView view) const {
  if (cuda_kernels()->relaid_bytes(view) > 0) {
    view.data = on_device(view.data);
    view.scales = view.biases = nullptr;
    return view;
  }
  view.data = on_device(view.data);
  view.scales = on_device(view.scales);
  view.biases = on_device(view.biases);
  return view;
}

KvLayer CudaExecutor::cache_layer(int32_t layer) const {
  KvLayer view = kv_.layer(layer);
  const auto kind = static_cast<size_t>(view.kind);
  view.keys = stores_[kind].data() + (view.keys - kv_.store(kind).data());
  view.values = stores_[kind].data() + (view.values - kv_.store(kind).data());
  return view;
}

base::Status CudaExecutor::refuse_unsupported(const plan::Plan& plan) const {
  const CudaKernels& table = *cuda_kernels();
  for (const plan::Op& op : plan.ops) {
    bool known = std::visit([&](const auto& args) { return LauncherOf{table}(args) != nullptr; }, op.args);
    if (const auto* attention = std::get_if<AttentionArgs>(&op.args); attention != nullptr && known) {
      AttentionArgs with_cache = *attention;
      with_cache.cache = kv_.layer(op.cache_layer);
      known = attention->softcap == 0 && table.supports_attention(with_cache);
    }
    if (const auto* norm = std::get_if<RmsNormArgs>(&op.args)) known = known && norm->weight != nullptr;
    if (!known) {
      return base::Error{base::ErrorCode::unsupported,
                         fmt::format("there is no CUDA kernel for {} ({})", plan::op_name(op.args), op.role),
                         "GPU", "use --device cpu"};
    }
    std::vector<tensor::NumberFormat> formats = plan::weight_formats(op.args);
    if (const auto* embed = std::get_if<EmbedArgs>(&op.args)) formats.push_back(embed->table.format);
    for (const tensor::NumberFormat& format : formats) {
      if (table.supports_format(format)) continue;
      return base::Error{base::ErrorCode::unsupported,
                         fmt::format("the CUDA kernels cannot read {}", format.name()), op.role,
                         "use --device cpu"};
    }
  }
  return {};
}

void CudaExecutor::bind_op(Bound& bound, plan::Op& op) {
  const auto* input = reinterpret_cast<const StepInput*>(input_memory_.data());
  const bool wanted = bound.plan_.info(op.outputs[0]).rows == plan::RowSpace::wanted;
  const int32_t* rows = wanted ? &input->wanted_rows : &input->rows;
  const auto in = [&](size_t i) { return bound.device_values(op.inputs[i]); };
  const auto out = [&](size_t i) { return bound.device_values(op.outputs[i]); };
  if (auto* a = std::get_if<EmbedArgs>(&op.args)) {
    a->input = input, a->table = on_device(a->table), a->out = out(0);
  } else if (auto* norm = std::get_if<RmsNormArgs>(&op.args)) {
    norm->rows = rows, norm->weight = on_device(norm->weight), norm->x = in(0), norm->out = out(0);
  } else if (auto* matmul = std::get_if<MatmulArgs>(&op.args)) {
    matmul->rows = rows, matmul->x = in(0), matmul->norm_weight = on_device(matmul->norm_weight);
    if (matmul->epilogue == MatmulEpilogue::add) matmul->residual = in(1);
    for (int s = 0; s < matmul->segment_count; ++s) {
      MatmulSegment& segment = matmul->segments[s];
      segment.weight = on_device(segment.weight), segment.bias = on_device(segment.bias);
      if (static_cast<size_t>(s) < op.outputs.size()) segment.out = out(static_cast<size_t>(s));
    }
  } else if (auto* angles = std::get_if<RopeAnglesArgs>(&op.args)) {
    angles->input = input, angles->frequencies = on_device(angles->frequencies), angles->out = out(0);
  } else if (auto* rope = std::get_if<RopeArgs>(&op.args)) {
    rope->rows = rows, rope->x = in(0), rope->angles = in(1), rope->out = out(0);
  } else if (auto* append = std::get_if<KvAppendArgs>(&op.args)) {
    append->input = input, append->k = in(0), append->v = in(1), append->cache = cache_layer(op.cache_layer);
  } else if (auto* attention = std::get_if<AttentionArgs>(&op.args)) {
    attention->input = input, attention->q = in(0), attention->out = out(0);
    attention->cache = cache_layer(op.cache_layer);
  } else if (auto* swiglu = std::get_if<SwigluArgs>(&op.args)) {
    swiglu->rows = rows, swiglu->gate = in(0), swiglu->up = in(1), swiglu->out = out(0);
  } else if (auto* add = std::get_if<AddArgs>(&op.args)) {
    add->rows = rows, add->a = in(0), add->b = in(1), add->out = out(0);
  } else if (auto* select = std::get_if<SelectRowsArgs>(&op.args)) {
    select->input = input, select->x = in(0), select->out = out(0);
  } else if (auto* fused = std::get_if<RopeAppendArgs>(&op.args)) {
    fused->input = input, fused->cache = cache_layer(op.cache_layer);
    fused->q.rows = fused->k.rows = rows;
    fused->q.x = in(0), fused->q.out = out(0), fused->k.x = in(1), fused->v = in(2);
    fused->q.angles = fused->k.angles = in(3);
  }
}

base::Result<std::unique_ptr<BoundPlan>> CudaExecutor::bind_plan(plan::Plan plan, const StepInput* input,
                                                                 int64_t max_positions) {
  if (fault_) return *fault_;
  const CudaKernels& table = *cuda_kernels();
  plan::expand(plan, [&](const plan::Op& op) {
    const auto* matmul = std::get_if<MatmulArgs>(&op.args);
    if (matmul == nullptr) return !std::holds_alternative<RmsNormArgs>(op.args);
    return matmul->epilogue != MatmulEpilogue::geglu && table.fuses_matmul(*matmul);
  });
  RAFTER_TRY(refuse_unsupported(plan));
  RAFTER_TRY(upload_operands(plan));
  auto bound = std::make_unique<Bound>();
  bound->plan_ = std::move(plan);
  bound->input_ = input;
  plan::Plan& p = bound->plan_;
  plan::place(p, [](const plan::Op&) { return false; });
  RAFTER_ASSIGN(bound->arena_, device::GpuMemory::allocate(static_cast<size_t>(p.arena_bytes)));
  RAFTER_ASSIGN(bound->host_, device::HostMemory::reserve(static_cast<size_t>(p.arena_bytes)));
  if (p.logits.valid()) bound->read_back_.push_back(p.logits);
  for (const auto& [name, value] : p.taps) bound->read_back_.push_back(value);
  if (p.logits.valid() && logits_staging_.data() == nullptr) {
    const auto bytes = static_cast<size_t>(kStagedRows * p.info(p.logits).width) * 4;
    RAFTER_ASSIGN(logits_staging_, device::PinnedMemory::allocate(bytes));
  }
  size_t scratch = kAlignment;
  bound->max_positions_ = max_positions;
  const CudaLaunch launch = launch_of(*bound);
  for (plan::Op& op : p.ops) {
    if (const auto* matmul = std::get_if<MatmulArgs>(&op.args))
      scratch = std::max(scratch, table.matmul_scratch(*matmul, launch));
    p.kernels.push_back(std::holds_alternative<MatmulArgs>(op.args)
                            ? table.matmul_kernel_name(std::get<MatmulArgs>(op.args), launch)
                            : plan::op_name(op.args));
    bind_op(*bound, op);
    if (const auto* attention = std::get_if<AttentionArgs>(&op.args))
      scratch = std::max(scratch, table.attention_scratch(*attention, launch));
  }
  scratch = std::max(scratch, table.greedy_scratch(p.capacity));
  RAFTER_ASSIGN(bound->scratch_, device::GpuMemory::allocate(round_up(scratch)));
  RAFTER_TRY(stream_.fill_zero(bound->scratch_.data(), bound->scratch_.size()));  // rows that are never live

  if (tables_.size() == 0) {
    const size_t bytes = kv_.kinds() * static_cast<size_t>(input->block_table_kind_stride) * 4;
    RAFTER_ASSIGN(tables_, device::GpuMemory::allocate(bytes));
    RAFTER_ASSIGN(table_staging_, device::PinnedMemory::allocate(bytes));
    std::memset(table_staging_.data(), 0xFF, bytes);
    RAFTER_TRY(stream_.copy_to_device(tables_.data(), table_staging_.data(), bytes));
    for (device::GpuMemory& store : stores_) RAFTER_TRY(stream_.fill_zero(store.data(), store.size()));
  }
  RAFTER_TRY(stream_.synchronize_blocking());
  if (options_.capture) {
    RAFTER_ASSIGN(bound->graph_, capture(*bound, /*greedy=*/false));
  }
  return std::unique_ptr<BoundPlan>(std::move(bound));
}

base::Result<device::GpuGraph> CudaExecutor::capture(Bound& bound, bool greedy) {
  RAFTER_TRY(stream_.begin_capture());
  launch_all(bound, greedy);
  RAFTER_ASSIGN(device::GpuGraph graph, stream_.end_capture());
  RAFTER_TRY(stream_.check_launches("capturing the step"));
  return graph;
}

CudaLaunch CudaExecutor::launch_of(const Bound& bound) const {
  CudaLaunch launch;
  launch.stream = stream_.handle(), launch.capacity = bound.plan_.capacity;
  launch.multiprocessors = gpu_.multiprocessors, launch.shared_bytes = gpu_.shared_bytes;
  launch.max_positions = bound.max_positions_;
  launch.scratch = bound.scratch_.data();
  launch.counters = reinterpret_cast<int32_t*>(counters_.data());
  return launch;
}

// Whether op `index` leaves its output as bf16: nothing reads it but the product that comes next.
bool CudaExecutor::hands_on_bf16(const plan::Plan& plan, size_t index, const CudaLaunch& launch) const {
  const CudaKernels& table = *cuda_kernels();
  const plan::Op& op = plan.ops[index];
  const auto* matmul = std::get_if<MatmulArgs>(&op.args);
  const auto* attention = std::get_if<AttentionArgs>(&op.args);
  const bool gives = (matmul != nullptr && table.gives_bf16(*matmul, launch)) ||
                     (attention != nullptr && table.attention_gives_bf16(*attention, launch));
  if (!gives || op.outputs.size() != 1 || index + 1 == plan.ops.size()) return false;
  const plan::Value value = op.outputs[0];
  const auto is_value = [&](plan::Value other) { return other.id == value.id; };
  if (is_value(plan.logits)) return false;
  for (const auto& [name, tap] : plan.taps) {
    if (is_value(tap)) return false;
  }
  for (size_t i = index + 1; i < plan.ops.size(); ++i) {
    const auto readers = std::count_if(plan.ops[i].inputs.begin(), plan.ops[i].inputs.end(), is_value);
    if (readers != (i == index + 1 ? 1 : 0)) return false;
  }
  const plan::Op& next = plan.ops[index + 1];
  const auto* reader = std::get_if<MatmulArgs>(&next.args);
  return reader != nullptr && is_value(next.inputs[0]) && table.takes_bf16(*reader, launch);
}

void CudaExecutor::launch_all(Bound& bound, bool greedy) {
  const CudaKernels& table = *cuda_kernels();
  CudaLaunch launch = launch_of(bound);
  const std::vector<plan::Op>& ops = bound.plan_.ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    launch.bf16_in = launch.bf16_out;
    launch.bf16_out = hands_on_bf16(bound.plan_, i, launch);
    const auto* rope = std::get_if<RopeAppendArgs>(&ops[i].args);
    const auto* next = i + 1 < ops.size() ? std::get_if<AttentionArgs>(&ops[i + 1].args) : nullptr;
    if (rope != nullptr && next != nullptr && table.fuses_rope_attention(*rope, *next, launch)) {
      table.rope_attention(*rope, *next, launch);
      ++i;
      continue;
    }
    std::visit([&](const auto& args) { LauncherOf{table}(args)(args, launch); }, ops[i].args);
  }
  launch.bf16_in = launch.bf16_out = false;
  if (!greedy) return;
  const plan::Value logits = bound.plan_.logits;
  table.greedy({reinterpret_cast<const StepInput*>(input_memory_.data()), bound.device_values(logits),
                bound.plan_.info(logits).width, reinterpret_cast<int32_t*>(tokens_.data())},
               launch);
}

base::Status CudaExecutor::copy_input(const Bound& bound) {
  const StepInput& host = *bound.input_;
  std::byte* const device = input_memory_.data();
  const size_t array_bytes = round_up(static_cast<size_t>(options_.row_capacity) * 4);
  const auto array = [&](size_t i) {
    return reinterpret_cast<const int32_t*>(device + kHeaderBytes + i * array_bytes);
  };
  StepInput header = host;
  header.tokens = array(0), header.positions = array(1), header.sequences = array(2);
  header.visible_from = array(3), header.visible_to = array(4), header.wanted = array(5);
  header.block_tables = reinterpret_cast<const int32_t*>(tables_.data());
  std::memcpy(input_staging_.data(), &header, sizeof(header));
  const int32_t* arrays[] = {host.tokens,       host.positions,  host.sequences,
                             host.visible_from, host.visible_to, host.wanted};
  for (size_t i = 0; i < 6; ++i) {
    std::memcpy(input_staging_.data() + kHeaderBytes + i * array_bytes, arrays[i],
                static_cast<size_t>(i == 5 ? host.wanted_rows : host.rows) * 4);
  }
  RAFTER_TRY(stream_.copy_to_device(device, input_staging_.data(), kHeaderBytes + 6 * array_bytes));
  return copy_tables(bound);
}

// Table entries that changed since their last copy. A copy that is still under way may take the new ones
// along.
base::Status CudaExecutor::copy_tables(const Bound& bound) {
  const StepInput& host = *bound.input_;
  auto* staged = reinterpret_cast<int32_t*>(table_staging_.data());
  for (int32_t r = 0; r < host.rows; ++r) {
    const auto bytes = static_cast<size_t>((host.visible_to[r] + kBlockPositions - 1) / kBlockPositions) * 4;
    for (size_t kind = 0; kind < kv_.kinds(); ++kind) {
      const int64_t row = static_cast<int64_t>(kind) * host.block_table_kind_stride +
                          host.sequences[r] * host.block_table_stride;
      if (std::memcmp(staged + row, host.block_tables + row, bytes) == 0) continue;
      std::memcpy(staged + row, host.block_tables + row, bytes);
      RAFTER_TRY(stream_.copy_to_device(tables_.data() + row * 4, staged + row, bytes));
    }
  }
  return {};
}

base::Status CudaExecutor::run(Bound& bound) {
  RAFTER_TRY(copy_input(bound));
  if (options_.capture) {
    RAFTER_TRY(stream_.launch(bound.graph_));
  } else {
    launch_all(bound, /*greedy=*/false);
    RAFTER_TRY(stream_.check_launches("launching the step"));
  }
  const bool staged = bound.input_->wanted_rows <= kStagedRows;
  bound.staged_logits_ = staged ? reinterpret_cast<const float*>(logits_staging_.data()) : nullptr;
  for (plan::Value value : bound.read_back_) {
    const plan::ValueInfo& info = bound.plan_.info(value);
    const int32_t rows = info.rows == plan::RowSpace::wanted ? bound.input_->wanted_rows : bound.input_->rows;
    RAFTER_TRY(stream_.copy_to_host(const_cast<float*>(bound.values(value)), bound.device_values(value),
                                    static_cast<size_t>(rows * info.width) * 4));
  }
  return stream_.synchronize_blocking();
}

base::Status CudaExecutor::run_greedy(Bound& bound, bool first) {
  RAFTER_CHECK(greedy_started_ - greedy_read_ < kGreedyAhead, "{} greedy steps under way", kGreedyAhead);
  RAFTER_TRY(first ? copy_input(bound) : copy_tables(bound));
  if (options_.capture) {
    if (bound.greedy_graph_.empty()) {
      RAFTER_ASSIGN(bound.greedy_graph_, capture(bound, /*greedy=*/true));
    }
    RAFTER_TRY(stream_.launch(bound.greedy_graph_));
  } else {
    launch_all(bound, /*greedy=*/true);
    RAFTER_TRY(stream_.check_launches("launching the step"));
  }
  TokenSlot& slot = token_slots_[greedy_started_++ % kGreedyAhead];
  slot.rows = bound.input_->rows;
  RAFTER_TRY(stream_.copy_to_host(slot.tokens.data(), tokens_.data(), static_cast<size_t>(slot.rows) * 4));
  return stream_.record(slot.written);
}

base::Status CudaExecutor::start_greedy_step(BoundPlan& plan, bool first) {
  if (fault_) return *fault_;
  base::Status status = run_greedy(static_cast<Bound&>(plan), first);
  if (!status.ok()) fault_ = status.error();
  return status;
}

base::Result<std::span<const int32_t>> CudaExecutor::greedy_tokens_blocking() {
  if (fault_) return *fault_;
  RAFTER_CHECK(greedy_read_ < greedy_started_, "no greedy step is under way");
  TokenSlot& slot = token_slots_[greedy_read_++ % kGreedyAhead];
  if (base::Status status = slot.written.wait_blocking(); !status.ok()) {
    fault_ = status.error();
    return *fault_;
  }
  return std::span<const int32_t>(reinterpret_cast<const int32_t*>(slot.tokens.data()),
                                  static_cast<size_t>(slot.rows));
}

base::Status CudaExecutor::run_plan_blocking(BoundPlan& plan, StepProfile* profile) {
  if (fault_) return *fault_;
  if (profile != nullptr) {
    return base::Error{base::ErrorCode::unsupported, "steps on a GPU have no profile by op", "GPU",
                       "use --device cpu"};
  }
  base::Status status = run(static_cast<Bound&>(plan));
  if (!status.ok()) fault_ = status.error();
  return status;
}

}  // namespace rafter::engine

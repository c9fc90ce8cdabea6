#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/version.h"
#include "cache/kv_cache.h"
#include "cache/recurrent_store.h"
#include "engine/exec_cuda.h"
#include "engine/exec_host.h"
#include "engine/model_fingerprint.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "plan/fuse.h"

namespace rafter::engine {

using base::Error;
using base::ErrorCode;

namespace {

constexpr int64_t kDefaultContext = 4096;    // when neither the checkpoint nor the caller says
constexpr int64_t kMaxContext = 16 << 20;    // bounds the block tables' own size
constexpr double kCacheShareOfMemory = 0.5;  // of what is available, for the default cache cap
constexpr int64_t kSnapshotShare = 8;  // of the cache cap, one part in, for snapshots of recurrent states

std::vector<cache::LayerShape> cache_shapes(const model::Model& model,
                                            const std::vector<kernels::KvCodes>& codes) {
  std::vector<cache::LayerShape> shapes;
  for (const model::CacheLayer& layer : model.cache_layers())
    shapes.push_back({layer.kv_heads, layer.head_dim, layer.window, codes[shapes.size()]});
  return shapes;
}

// The rows of a step as the kernels read them: storage for the arrays that StepInput points at.
struct InputBlock {
  kernels::StepInput input;
  std::vector<int32_t> tokens, positions, sequences, visible_from, visible_to, wanted;

  kernels::RecurrentInput recurrent;
  std::vector<kernels::RecurrentRun> runs;
  std::vector<int32_t> rows_by_sequence;

  InputBlock(int capacity, const cache::KvCache& cache) {
    for (auto* array : {&tokens, &positions, &sequences, &visible_from, &visible_to, &wanted}) {
      array->resize(static_cast<size_t>(capacity));
    }
    input.tokens = tokens.data();
    input.positions = positions.data();
    input.sequences = sequences.data();
    input.visible_from = visible_from.data();
    input.visible_to = visible_to.data();
    input.wanted = wanted.data();
    input.block_tables = cache.tables();
    input.block_table_stride = cache.stride();
    input.block_table_kind_stride = cache.kind_stride();
    input.recurrent = &recurrent;
  }

  // Groups the rows by sequence and begins each sequence's part of the step.
  void begin_recurrent(std::span<const Row> rows, cache::RecurrentStore& states) {
    std::map<int32_t, std::vector<int32_t>> by_sequence;
    for (size_t i = 0; i < rows.size(); ++i) by_sequence[rows[i].sequence].push_back(static_cast<int32_t>(i));
    runs.clear();
    rows_by_sequence.clear();
    for (const auto& [sequence, indices] : by_sequence) {
      runs.push_back(states.begin(sequence, static_cast<int32_t>(rows_by_sequence.size()),
                                  static_cast<int32_t>(indices.size())));
      rows_by_sequence.insert(rows_by_sequence.end(), indices.begin(), indices.end());
    }
    recurrent = {static_cast<int32_t>(runs.size()), runs.data(), rows_by_sequence.data()};
  }

  void fill(std::span<const Row> rows) {
    input.rows = static_cast<int32_t>(rows.size());
    input.wanted_rows = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      tokens[i] = rows[i].token;
      positions[i] = rows[i].position;
      sequences[i] = rows[i].sequence;
      visible_from[i] = rows[i].visible_from;
      visible_to[i] = rows[i].position + 1;
      if (rows[i].wants_logits) wanted[static_cast<size_t>(input.wanted_rows++)] = static_cast<int32_t>(i);
    }
  }
};

// Fills the page tables of the weights while the first rows already run: they touch what is not there yet
// themselves.
class BackgroundPopulate {
 public:
  explicit BackgroundPopulate(std::shared_ptr<const format::Checkpoint> checkpoint)
      : thread_([this, checkpoint = std::move(checkpoint)] { checkpoint->populate_blocking(stopping_); }) {}
  ~BackgroundPopulate() {
    stopping_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

struct Engine::Impl {
  std::shared_ptr<const format::Checkpoint> checkpoint;
  std::shared_ptr<const model::Model> model;
  EngineOptions options;
  std::string executor_name;
  std::string back_end;  // whose bits rows have: "avx512", "reference", "cuda"
  std::string cache_format;
  std::optional<uint64_t> fingerprint;  // once asked for
  cache::KvCache kv;
  cache::RecurrentStore states;
  std::unique_ptr<InputBlock> block;
  std::unique_ptr<base::WorkerTeam> team;
  std::unique_ptr<Executor> executor;
  device::GpuInfo gpu;                                    // cuda
  std::map<int64_t, std::unique_ptr<BoundPlan>> buckets;  // by capacity
  BoundPlan* last = nullptr;
  StepProfile* profile = nullptr;
  StepTimes times;
  std::unique_ptr<BackgroundPopulate> populate;

  base::Status fill_in_options();
  uint64_t gpu_bytes_beside_weights() const;
  base::Status check_gpu_memory() const;
  base::Status create_cache();
  base::Status create_states();
  int64_t state_bytes = 0;  // that sequences' recurrent states and snapshots may take
  base::Status create_executor();
  base::Result<BoundPlan*> bucket_for(int64_t rows);
  base::Status check_rows(std::span<const Row> rows) const;
  base::Status extend_sequences(std::span<const Row> rows);
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

base::Result<std::unique_ptr<Engine>> Engine::open(std::shared_ptr<const format::Checkpoint> checkpoint,
                                                   EngineOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->checkpoint = std::move(checkpoint);
  impl->options = std::move(options);
  RAFTER_ASSIGN(impl->model, model::load_model(*impl->checkpoint));
  RAFTER_TRY(impl->fill_in_options());
  if (impl->options.executor == ExecutorKind::cuda) {
    RAFTER_ASSIGN(impl->gpu, device::use_gpu(impl->options.gpu));
  }
  RAFTER_TRY(impl->check_gpu_memory());
  RAFTER_TRY(impl->create_cache());
  RAFTER_TRY(impl->create_executor());
  if (impl->options.populate &&
      impl->options.executor != ExecutorKind::cuda)  // a GPU's weights are uploaded by now
    impl->populate = std::make_unique<BackgroundPopulate>(impl->checkpoint);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

base::Status Engine::Impl::fill_in_options() {
  const int64_t trained = model->info().max_positions;
  if (options.context_limit < 0 || options.context_limit > kMaxContext) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a context of {} positions is not possible", options.context_limit), "--ctx",
                 fmt::format("use 1 to {}", kMaxContext)};
  }
  if (trained > 0 && options.context_limit > trained) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a context of {} positions was asked for and the model has {}",
                             options.context_limit, trained),
                 "--ctx", fmt::format("use at most {}", trained)};
  }
  if (options.context_limit == 0)
    options.context_limit = trained > 0 ? std::min(trained, kMaxContext) : kDefaultContext;
  if (options.threads < 0 || options.threads > 1024) {
    return Error{ErrorCode::invalid_argument, fmt::format("{} threads", options.threads), "--threads",
                 "use 1 to 1024, or 0 for every core"};
  }
  if (options.executor == ExecutorKind::reference) options.threads = 1;
  if (options.threads == 0) options.threads = base::usable_cores();
  if (options.row_capacity < 1 || options.row_capacity > 65536) {
    return Error{ErrorCode::invalid_argument, fmt::format("{} rows per step", options.row_capacity),
                 "--prefill-chunk", "use 1 to 65536"};
  }
  options.row_capacity = static_cast<int>(std::bit_ceil(static_cast<unsigned>(options.row_capacity)));
  options.max_sequences = std::clamp(options.max_sequences, 1, 4096);
  return {};
}

// Every tensor is counted, though not all may be used.
uint64_t Engine::Impl::gpu_bytes_beside_weights() const {
  const auto weights = static_cast<uint64_t>(checkpoint->file_bytes());
  return gpu.free_bytes > weights ? gpu.free_bytes - weights : 0;
}

// Before anything is uploaded: the weights, and the cache if its size was asked for, must fit.
base::Status Engine::Impl::check_gpu_memory() const {
  if (options.executor != ExecutorKind::cuda) return {};
  const uint64_t room = gpu_bytes_beside_weights();
  if (room > 0 && static_cast<uint64_t>(std::max<int64_t>(options.cache_bytes, 0)) <= room) return {};
  return Error{ErrorCode::out_of_memory,
               fmt::format("the weights take {} bytes, the cache {}, and {} of the {} bytes of {} are free",
                           checkpoint->file_bytes(), std::max<int64_t>(options.cache_bytes, 0),
                           gpu.free_bytes, gpu.total_bytes, gpu.name),
               "--device", "use --device cpu or a smaller model"};
}

base::Status Engine::Impl::create_cache() {
  RAFTER_ASSIGN(const std::vector<kernels::KvCodes> codes,
                kv_codes(*checkpoint, *model, options.kv_quantization, options.precise));
  const bool has_codes = std::any_of(codes.begin(), codes.end(), [](const auto& c) { return c.bits != 0; });
  if (has_codes && options.executor == ExecutorKind::cuda) {
    return Error{ErrorCode::unsupported, "there are no CUDA kernels for quantised keys and values",
                 "--kv-quant", "use --kv-quant off or --device cpu"};
  }
  cache_format = describe_kv_codes(codes, options.precise);
  const std::vector<cache::LayerShape> shapes = cache_shapes(*model, codes);
  const tensor::DType type = options.precise ? tensor::DType::f32 : tensor::DType::bf16;
  if (options.cache_bytes <= 0) {
    const uint64_t available =
        options.executor == ExecutorKind::cuda ? gpu_bytes_beside_weights() : device::available_memory();
    options.cache_bytes = static_cast<int64_t>(static_cast<double>(available) * kCacheShareOfMemory);
  }
  RAFTER_TRY(create_states());
  const cache::KvCacheOptions cache_options = {type, options.max_sequences, options.context_limit,
                                               options.row_capacity, options.cache_bytes - state_bytes};
  RAFTER_ASSIGN(kv, cache::KvCache::create(shapes, cache_options));
  options.cache_bytes = kv.bytes() + state_bytes;
  block = std::make_unique<InputBlock>(options.row_capacity, kv);
  return {};
}

// As many sequences as half of the cache's memory holds states for, at least one.
base::Status Engine::Impl::create_states() {
  const std::vector<kernels::RecurrentShape> shapes = model->state_layers();
  if (shapes.empty()) return {};
  int64_t slot_bytes = 0;
  for (const kernels::RecurrentShape& shape : shapes)
    slot_bytes += shape.slot_floats() * static_cast<int64_t>(sizeof(float));
  const int64_t affordable = options.cache_bytes / 2 / slot_bytes;
  options.max_sequences = static_cast<int>(std::clamp<int64_t>(affordable, 1, options.max_sequences));
  const int64_t snapshot_bytes = options.cache_bytes / kSnapshotShare;
  RAFTER_ASSIGN(states, cache::RecurrentStore::create(shapes, options.max_sequences, snapshot_bytes));
  state_bytes = slot_bytes * options.max_sequences + snapshot_bytes;
  return {};
}

base::Status Engine::Impl::create_executor() {
  if (options.executor == ExecutorKind::cuda) {
    executor_name = fmt::format("cuda {}", gpu.name);
    back_end = "cuda";
    RAFTER_ASSIGN(executor, CudaExecutor::create(gpu, kv, {options.row_capacity, options.capture}));
    RAFTER_ASSIGN(last, bucket_for(1));
    return {};
  }
  const kernels::KernelTable* table = &kernels::reference_kernels();
  if (options.executor == ExecutorKind::cpu) {
    RAFTER_ASSIGN(const base::CpuTier tier, base::select_tier());
    table = &kernels::cpu_kernels(tier);
    executor_name =
        fmt::format("cpu {}, {} thread{}", table->name, options.threads, options.threads == 1 ? "" : "s");
  } else {
    executor_name = "reference";
  }
  back_end = options.executor == ExecutorKind::cpu ? table->name : "reference";
  RAFTER_ASSIGN(team, base::WorkerTeam::create(options.threads));
  executor = std::make_unique<HostExecutor>(*table, *team, kv, &states);
  RAFTER_ASSIGN(last, bucket_for(1));  // so that a format without a kernel is refused here
  return {};
}

// Emits and binds the bucket on its first use.
base::Result<BoundPlan*> Engine::Impl::bucket_for(int64_t rows) {
  const int64_t capacity = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  if (auto found = buckets.find(capacity); found != buckets.end()) return found->second.get();
  plan::EmitOptions emit;
  emit.capacity = capacity;
  emit.precision =
      options.precise ? kernels::MatmulPrecision::fp32_inputs : kernels::MatmulPrecision::bf16_inputs;
  emit.context = options.context_limit;
  emit.head = options.head;
  emit.taps.insert(options.taps.begin(), options.taps.end());
  plan::Emitter emitter(emit);
  model->emit(emitter);
  plan::Plan plan = std::move(emitter).take();
  if (options.fuse) plan::fuse(plan);
  RAFTER_ASSIGN(auto bound, executor->bind_plan(std::move(plan), &block->input, options.context_limit));
  BoundPlan* result = bound.get();
  buckets[capacity] = std::move(bound);
  return result;
}

base::Status Engine::Impl::check_rows(std::span<const Row> rows) const {
  if (rows.empty() || static_cast<int>(rows.size()) > options.row_capacity) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} rows in a step of 1 to {}", rows.size(), options.row_capacity), "step", ""};
  }
  std::map<int32_t, int64_t> next;  // the position that each sequence's next row must have
  for (const Row& row : rows) {
    if (row.token < 0 || row.token >= model->info().vocabulary) {
      return Error{
          ErrorCode::invalid_argument,
          fmt::format("token {} is not in the vocabulary of {}", row.token, model->info().vocabulary), "step",
          ""};
    }
    if (!kv.exists(row.sequence)) {
      return Error{ErrorCode::invalid_argument, fmt::format("there is no sequence {}", row.sequence), "step",
                   ""};
    }
    int64_t& expected = next.try_emplace(row.sequence, kv.length(row.sequence)).first->second;
    if (row.position != expected || row.visible_from < 0 || row.visible_from > row.position) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("position {} (seeing from {}) of sequence {}, whose next is {}", row.position,
                               row.visible_from, row.sequence, expected),
                   "step", ""};
    }
    ++expected;
  }
  return {};
}

// All or nothing: a refusal gives back what the step's other sequences had got.
base::Status Engine::Impl::extend_sequences(std::span<const Row> rows) {
  std::map<int32_t, int64_t> counts;
  for (const Row& row : rows) ++counts[row.sequence];
  std::vector<std::pair<int32_t, int64_t>> extended;  // and their lengths before
  for (const auto& [sequence, count] : counts) {
    const int64_t before = kv.length(sequence);
    base::Status status = kv.extend(sequence, count);
    if (!status.ok()) {
      for (const auto& [other, length] : extended) kv.truncate(other, length);
      return status;
    }
    extended.emplace_back(sequence, before);
  }
  return {};
}

base::Status Engine::step(std::span<const Row> rows) {
  Impl& e = *impl_;
  const auto start = std::chrono::steady_clock::now();
  RAFTER_TRY(e.check_rows(rows));
  RAFTER_ASSIGN(BoundPlan * bound, e.bucket_for(static_cast<int64_t>(rows.size())));
  RAFTER_TRY(e.extend_sequences(rows));
  e.block->fill(rows);
  if (!e.states.empty()) e.block->begin_recurrent(rows, e.states);
  e.last = bound;
  const auto prepared = std::chrono::steady_clock::now();
  RAFTER_TRY(e.executor->run_plan_blocking(*bound, e.profile));
  e.times = {(prepared - start).count(), (std::chrono::steady_clock::now() - prepared).count()};
  return e.checkpoint->check_not_cut();  // weights that could not be read count as zeros: say so, at once
}

namespace {

int32_t largest(std::span<const float> logits) {
  size_t best = 0;
  float value = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > value) best = i, value = logits[i];
  }
  return static_cast<int32_t>(best);
}

}  // namespace

base::Status Engine::decode_greedy(std::span<const Row> rows, int64_t steps,
                                   const std::function<bool(std::span<const int32_t>)>& accept) {
  Impl& e = *impl_;
  std::vector<Row> next(rows.begin(), rows.end());
  for (Row& row : next) row.wants_logits = true;
  if (!e.executor->has_greedy_steps()) {
    std::vector<int32_t> tokens(next.size());
    for (int64_t done = 0; done < steps; ++done) {
      RAFTER_TRY(step(next));
      for (size_t i = 0; i < next.size(); ++i) {
        tokens[i] = largest(logits(static_cast<int>(i)));
        next[i].token = tokens[i], ++next[i].position;
      }
      if (!accept(tokens)) break;
    }
    return {};
  }
  RAFTER_TRY(e.check_rows(rows));
  RAFTER_ASSIGN(BoundPlan * bound, e.bucket_for(static_cast<int64_t>(rows.size())));
  e.last = bound;
  base::Status status;
  int64_t started = 0, read = 0;
  bool going = true, stopped = false;
  while (read < started || (going && started < steps)) {
    while (going && started < steps && started - read < Executor::kGreedyAhead) {
      status = e.extend_sequences(next);
      if (status.ok()) {
        e.block->fill(next);
        status = e.executor->start_greedy_step(*bound, started == 0);
      }
      going = status.ok();
      if (going) ++started;
      for (Row& row : next) ++row.position;
    }
    if (read == started) break;
    RAFTER_ASSIGN(const std::span<const int32_t> tokens, e.executor->greedy_tokens_blocking());
    ++read;
    if (stopped) continue;  // what ran ahead is forgotten
    if (!accept(tokens)) {
      going = false, stopped = true;
      for (const Row& row : rows) e.kv.truncate(row.sequence, row.position + read);
    }
  }
  RAFTER_TRY(e.checkpoint->check_not_cut());
  return status;
}

std::span<const float> Engine::logits(int i) const {
  const Impl& e = *impl_;
  RAFTER_CHECK(i >= 0 && i < e.block->input.wanted_rows, "logits of row {} of {}", i,
               e.block->input.wanted_rows);
  const auto width = static_cast<size_t>(vocabulary_size());
  return {e.last->values(e.last->plan().logits) + static_cast<size_t>(i) * width, width};
}

std::span<const float> Engine::tap(const std::string& name) const {
  const Impl& e = *impl_;
  const plan::Plan& plan = e.last->plan();
  auto found = plan.taps.find(name);
  RAFTER_CHECK(found != plan.taps.end(), "no tap {}", name);
  const bool on_wanted = plan.info(found->second).rows == plan::RowSpace::wanted;
  const int64_t rows = on_wanted ? e.block->input.wanted_rows : e.block->input.rows;
  return {e.last->values(found->second), static_cast<size_t>(rows * plan.info(found->second).width)};
}

const model::Model& Engine::model() const { return *impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
int64_t Engine::context_limit() const { return impl_->options.context_limit; }
int64_t Engine::vocabulary_size() const { return impl_->model->info().vocabulary; }
std::string Engine::executor_name() const { return impl_->executor_name; }
std::string Engine::cache_format() const { return impl_->cache_format; }

base::Result<int32_t> Engine::create_sequence() {
  RAFTER_ASSIGN(const int32_t sequence, impl_->kv.create_sequence());
  impl_->states.create_sequence(sequence);
  return sequence;
}
void Engine::release_sequence(int32_t sequence) {
  impl_->kv.release(sequence);
  impl_->states.release(sequence);
}
int64_t Engine::length(int32_t sequence) const { return impl_->kv.length(sequence); }
int64_t Engine::reentry_position(int32_t sequence, int64_t length) const {
  for (;;) {  // where both can go back to
    const int64_t reached =
        impl_->states.reentry_position(sequence, impl_->kv.reentry_position(sequence, length));
    if (reached == length) return length;
    length = reached;
  }
}
void Engine::truncate(int32_t sequence, int64_t length) {
  impl_->states.truncate(sequence, length);
  impl_->kv.truncate(sequence, length);
}
base::Result<int32_t> Engine::fork_sequence(int32_t sequence, int64_t length) {
  RAFTER_ASSIGN(const int32_t copy, impl_->kv.fork(sequence, length));
  impl_->states.fork(sequence, copy, length);
  return copy;
}
bool Engine::take_snapshot(int32_t sequence) {
  return impl_->kv.take_snapshot(sequence) && impl_->states.take_snapshot(sequence);
}

cache::SequenceOrigin Engine::sequence_origin() const {
  Impl& e = *impl_;
  if (!e.fingerprint) {
    e.fingerprint = model_fingerprint(*e.checkpoint, fmt::format("{} {} {}", base::version(), e.back_end,
                                                                 e.options.precise ? "precise" : ""));
  }
  return {*e.fingerprint, e.cache_format};
}

base::Status Engine::save_sequence_blocking(int32_t sequence, std::span<const int32_t> tokens,
                                            const std::string& space, const std::string& path) const {
  const Impl& e = *impl_;
  RAFTER_CHECK(static_cast<int64_t>(tokens.size()) == length(sequence) && !tokens.empty(),
               "{} tokens of sequence {}, which has {}", tokens.size(), sequence, length(sequence));
  if (!e.kv.is_on_host()) {
    return Error{ErrorCode::unsupported, "a GPU's cache is not saved", path, "use --device cpu"};
  }
  cache::SequenceHead head = {sequence_origin(), space, {tokens.begin(), tokens.end()}, {}};
  if (!reenters_anywhere()) {
    constexpr size_t kMost = 1024;
    for (int64_t next = length(sequence); next > 0 && head.reentries.size() < kMost;) {
      head.reentries.push_back(reentry_position(sequence, next));
      next = head.reentries.back() - 1;
    }
  }
  RAFTER_ASSIGN(cache::SequenceWriter writer, cache::SequenceWriter::create(path, head));
  e.kv.save(sequence, writer);
  e.states.save(sequence, writer);
  return writer.finish_blocking();
}

base::Result<Engine::LoadedSequence> Engine::load_sequence_blocking(const std::string& path) {
  Impl& e = *impl_;
  if (!e.kv.is_on_host()) {
    return Error{ErrorCode::unsupported, "a GPU's cache is not loaded", path, "use --device cpu"};
  }
  RAFTER_ASSIGN(const cache::SequenceFile file, cache::SequenceFile::open(path));
  RAFTER_TRY(file.check_origin(sequence_origin()));
  RAFTER_ASSIGN(cache::SequenceBody body, file.checked_body());
  RAFTER_ASSIGN(const cache::KvCache::Saved kv, e.kv.read(file, body));
  RAFTER_ASSIGN(const auto states, e.states.read(file, body, kv.length));
  const std::vector<int32_t>& tokens = file.head().tokens;
  if (kv.length != static_cast<int64_t>(tokens.size()) || !body.at_end())
    return file.invalid(fmt::format("{} positions and {} tokens", kv.length, tokens.size()));
  if (std::any_of(tokens.begin(), tokens.end(), [&](int32_t t) { return t < 0 || t >= vocabulary_size(); }))
    return file.invalid("a token outside the vocabulary");
  RAFTER_ASSIGN(const int32_t sequence, e.kv.restore(kv));
  e.states.create_sequence(sequence);
  e.states.restore(sequence, states);
  if (base::Status status = file.check_unchanged(); !status.ok()) {  // while it was copied
    release_sequence(sequence);
    return status.error();
  }
  return LoadedSequence{sequence, file.head()};
}

base::Status Engine::check_fits(int64_t positions) const {
  const Impl& e = *impl_;
  if (positions > e.options.context_limit) {
    return Error{
        ErrorCode::out_of_memory,
        fmt::format("{} positions are needed and the context holds {}", positions, e.options.context_limit),
        "context", "use a shorter prompt, fewer tokens to generate, or a larger --ctx"};
  }
  if (!e.kv.fits(positions)) {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("{} positions need {} bytes of cache and {} are there", positions,
                             e.kv.bytes_of_sequence(positions), e.options.cache_bytes),
                 "cache", "use a shorter context or free some memory"};
  }
  return {};
}

bool Engine::reenters_anywhere() const { return impl_->states.empty() && !impl_->kv.has_windows(); }

bool Engine::has_room(std::span<const Row> rows) const {
  std::map<int32_t, int64_t> counts;
  for (const Row& row : rows) ++counts[row.sequence];
  const std::vector<std::pair<int32_t, int64_t>> growth(counts.begin(), counts.end());
  return impl_->kv.has_room(growth);
}

bool Engine::can_hold(std::span<const Growth> sequences) const {
  std::vector<cache::KvCache::Growth> growth;
  for (const Growth& g : sequences) growth.push_back({g.sequence, g.held, g.positions});
  return static_cast<int>(growth.size()) <= impl_->options.max_sequences && impl_->kv.can_hold(growth);
}

int64_t Engine::bytes_held(std::span<const int32_t> sequences) const {
  int64_t bytes = impl_->kv.bytes_held(sequences);
  if (!impl_->states.empty()) {
    bytes += impl_->states.slot_bytes() * static_cast<int64_t>(sequences.size());
    bytes += impl_->states.snapshot_bytes_held(sequences);
  }
  return bytes;
}

StepTimes Engine::last_step_times() const { return impl_->times; }
void Engine::set_profile(StepProfile* profile) { impl_->profile = profile; }

base::Result<const plan::Plan*> Engine::plan_for(int rows) {
  RAFTER_ASSIGN(BoundPlan * bound, impl_->bucket_for(std::clamp(rows, 1, impl_->options.row_capacity)));
  return &bound->plan();
}

int64_t Engine::cache_bytes_in_use() const { return impl_->kv.bytes_in_use(); }
int64_t Engine::cache_bytes_limit() const { return impl_->options.cache_bytes; }

int64_t Engine::cache_bytes_for(int64_t positions) const {
  return impl_->kv.bytes_of_sequence(positions) + (impl_->states.empty() ? 0 : impl_->states.slot_bytes());
}

int64_t Engine::scratch_bytes() const {
  int64_t total = impl_->executor->shared_scratch_bytes();
  for (const auto& [capacity, bound] : impl_->buckets) total += bound->bytes();
  return total;
}

}  // namespace rafter::engine

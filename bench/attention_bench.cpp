// Speed of attention over a cache in bf16, or in 8- or 4-bit codes in groups of 64: with few rows GB/s of
// keys and values against a raw read of the same bytes, with many rows GFLOP/s.
//
//   attention_bench [tier] [threads] [heads kv_heads head_dim positions rows [bits]]
//
// The rows are the last ones of one sequence of `positions`. Few rows cycle over enough layers to defeat the
// last-level cache; raw read and attention alternate, the figures are medians over the pairs. With one thread
// times are the thread's own, which other programs on the machine don't advance.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <time.h>

#include "base/worker_team.h"
#include "kernels/cpu/cpu_kernels.h"

namespace rafter::kernels {
namespace {

constexpr int kPairs = 11;
constexpr int64_t kCycledBytes = int64_t{256} << 20;

struct Shape {
  int32_t heads, kv_heads, head_dim;
  int64_t positions, rows;
  int32_t bits = 0;  // 0: bf16

  KvLayer layer() const {
    KvLayer layer;
    layer.kv_heads = kv_heads;
    layer.head_dim = head_dim;
    if (bits != 0) layer.codes = {bits, 64};
    return layer;
  }
};

std::byte* map_pages(int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

class BenchWorker : public Worker {
 public:
  BenchWorker(int index, base::WorkerTeam* team) : Worker(index, team->size()), team_(team) {}
  void barrier() override { team_->barrier(); }

 private:
  base::WorkerTeam* team_;
};

class Bench {
 public:
  Bench(const KernelTable& table, int threads, const Shape& shape)
      : table_(table), shape_(shape), team_(threads) {
    for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<BenchWorker>(i, &team_));
    const int64_t blocks = (shape.positions + kBlockPositions - 1) / kBlockPositions;
    plane_bytes_ = shape.layer().side_bytes();
    layers_ = shape.rows > 16 ? 1 : std::max<int64_t>(1, kCycledBytes / (blocks * plane_bytes_ * 2));
    // A block holds keys and values of all layers.
    bytes_ = blocks * layers_ * plane_bytes_ * 2;
    cache_ = map_pages(bytes_);
    auto* words = reinterpret_cast<uint16_t*>(cache_);
    for (int64_t i = 0; i < bytes_ / 2; ++i) {  // codes and scales too: any bits will do but NaN's
      words[i] = tensor::f32_to_bf16(static_cast<float>(i * 7919 % 1009) / 504 - 1);
    }
    for (int64_t i = 0; i < blocks; ++i) block_table_.push_back(static_cast<int32_t>(i));
    sequences_.assign(shape.rows, 0);
    from_.assign(shape.rows, 0);
    for (int64_t i = shape.positions - shape.rows; i < shape.positions; ++i) {
      positions_.push_back(static_cast<int32_t>(i));
      to_.push_back(static_cast<int32_t>(i + 1));
    }
    input_.rows = static_cast<int32_t>(shape.rows);
    input_.positions = positions_.data();
    input_.sequences = sequences_.data();
    input_.visible_from = from_.data();
    input_.visible_to = to_.data();
    input_.block_tables = block_table_.data();
    input_.block_table_stride = blocks;
    q_.resize(shape.rows * shape.heads * shape.head_dim);
    for (size_t i = 0; i < q_.size(); ++i) q_[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    out_.resize(q_.size());
    const KernelTable::Scratch sizes = table.attention_scratch(args_of(0), shape.rows, shape.positions);
    const std::span<std::byte> shared(map_pages(sizes.shared + 64), sizes.shared);
    for (auto& worker : workers_) worker->set_memory({map_pages(sizes.per_worker), sizes.per_worker}, shared);
  }

  void measure() {
    std::vector<double> attends, reads, ratios;
    attend();
    for (int pair = 0; pair < kPairs; ++pair) {
      reads.push_back(read());
      attends.push_back(attend());
      ratios.push_back(reads.back() / attends.back());
    }
    const double seconds = median(attends) / static_cast<double>(layers_);
    int64_t visible = 0;
    for (int32_t to : to_) visible += to;
    const Cost work = cost(args_of(0), shape_.rows, visible, shape_.positions);
    std::printf("%-8s %-4s %2d/%-2d heads of %-3d %6ld positions %4ld rows  %9.3f ms  %6.1f GFLOP/s  ",
                table_.name,
                shape_.bits == 0   ? "bf16"
                : shape_.bits == 8 ? "8bit"
                                   : "4bit",
                shape_.heads, shape_.kv_heads, shape_.head_dim, shape_.positions, shape_.rows, seconds * 1e3,
                static_cast<double>(work.operations) * 1e-9 / seconds);
    if (shape_.rows <= 16) {
      std::printf("%5.1f GB/s, raw read %5.1f: %3.0f %%",
                  static_cast<double>(work.cache_bytes) * 1e-9 / seconds,
                  static_cast<double>(bytes_) * 1e-9 / median(reads), 100 * median(ratios));
    }
    std::printf("\n");
    std::fflush(stdout);
    munmap(cache_, static_cast<size_t>(bytes_));
  }

 private:
  AttentionArgs args_of(int64_t layer) {
    AttentionArgs args;
    args.input = &input_;
    args.heads = shape_.heads;
    args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    std::byte* keys = cache_ + layer * 2 * plane_bytes_;
    args.cache = shape_.layer();
    args.cache.keys = keys;
    args.cache.values = keys + plane_bytes_;
    args.cache.block_stride = 2 * plane_bytes_ * layers_;
    args.q = q_.data();
    args.out = out_.data();
    return args;
  }

  double now() const {
    timespec time;
    clock_gettime(team_.size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // Seconds for all layers, a barrier after each.
  double attend() {
    std::vector<Worker::Cursor> cursors(layers_ * Worker::kPhases);
    const double start = now();
    team_.run_blocking([&](int index) {
      for (int64_t layer = 0; layer < layers_; ++layer) {
        workers_[index]->set_cursors(&cursors[layer * Worker::kPhases]);
        table_.attention(args_of(layer), *workers_[index]);
        team_.barrier();
      }
    });
    return now() - start;
  }

  double read() {
    const double start = now();
    team_.run_blocking([&](int index) {
      const auto* words = reinterpret_cast<const uint64_t*>(cache_);
      uint64_t sum = 0;
      const int64_t all = bytes_ / 8;
      for (int64_t i = all * index / team_.size(); i < all * (index + 1) / team_.size(); ++i) sum += words[i];
      checksum_ += sum;
    });
    return now() - start;
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  const KernelTable& table_;
  Shape shape_;
  base::WorkerTeam team_;
  std::vector<std::unique_ptr<BenchWorker>> workers_;
  int64_t plane_bytes_ = 0, layers_ = 0, bytes_ = 0;
  std::byte* cache_ = nullptr;
  std::vector<int32_t> block_table_, sequences_, from_, to_, positions_;
  StepInput input_;
  std::vector<float> q_, out_;
  std::atomic<uint64_t> checksum_{0};
};

}  // namespace
}  // namespace rafter::kernels

int main(int argc, char** argv) {
  using namespace rafter;
  base::CpuTier tier = base::supported_tiers().back();
  for (base::CpuTier supported : base::supported_tiers()) {
    if (argc > 1 && argv[1] == std::string(base::cpu_tier_name(supported))) tier = supported;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : base::usable_cores();
  std::vector<kernels::Shape> shapes = {
      {32, 8, 128, 4096, 1},     {32, 32, 128, 4096, 1}, {32, 8, 128, 512, 1},    {9, 3, 64, 1024, 1},
      {32, 8, 128, 2048, 4},     {8, 1, 256, 4096, 1},   {32, 8, 128, 16384, 1},  {32, 8, 128, 16384, 1, 8},
      {32, 8, 128, 16384, 1, 4}, {32, 8, 128, 512, 512}, {32, 8, 128, 4096, 512}, {9, 3, 64, 2048, 512}};
  if (argc > 7) {
    shapes = {{std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]), std::atoll(argv[6]),
               std::atoll(argv[7]), argc > 8 ? std::atoi(argv[8]) : 0}};
  }
  for (const kernels::Shape& shape : shapes)
    kernels::Bench(kernels::cpu_kernels(tier), threads, shape).measure();
}

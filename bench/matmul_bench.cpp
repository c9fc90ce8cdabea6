// Speed of the matrix products: with few rows GB/s of weights against a raw read of the same bytes, with many
// rows TFLOP/s against the peak of the bf16 dot product.
//
//   matmul_bench [tier] [threads] [rows] [N] [K] [format…]
//   matmul_bench cache [tier] [rows] [K] [format…]
//
// Matrices cycle over enough copies to defeat the last-level cache, back to back inside one submission with a
// barrier between them. Raw read and product alternate; the figures are medians over the pairs. Formats are
// q4g64, q8g32, bf16, q4_0, … (scales bf16); with a suffix `p` inputs keep fp32 precision.
//
// The second form multiplies one small matrix that stays in the second-level cache, on one core, by the
// thread's own clock, the best of many passes: what the arithmetic alone would reach, on a busy machine too.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/cpu_info.h"
#include "base/worker_team.h"
#include "kernels/cpu/tiers.h"
#include "tensor/codec.h"
#include "tensor/format_table.h"

namespace rafter::kernels {
namespace {

using tensor::DType;
using tensor::NumberFormat;

constexpr int kPairs = 11;
constexpr int64_t kCycledBytes = int64_t{256} << 20;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_seconds_now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Zeroed memory on huge pages, which hold whole multiples of 2 MiB only.
constexpr int64_t kHugePage = 2 << 20;

int64_t in_huge_pages(int64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

std::byte* map_pages(int64_t bytes) {
  const int64_t whole = in_huge_pages(bytes);
  void* memory = mmap(nullptr, static_cast<size_t>(whole + kHugePage), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* begin = static_cast<std::byte*>(memory);
  const int64_t before = in_huge_pages(reinterpret_cast<int64_t>(begin)) - reinterpret_cast<int64_t>(begin);
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  munmap(begin + before + whole, static_cast<size_t>(kHugePage - before));
  begin += before;
  madvise(begin, static_cast<size_t>(whole), MADV_HUGEPAGE);
  return begin;
}

void unmap_pages(const std::byte* begin, int64_t bytes) {
  munmap(const_cast<std::byte*>(begin), static_cast<size_t>(in_huge_pages(bytes)));
}

NumberFormat parse_format(const std::string& name) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    if (NumberFormat::plain(type).name() == name) return NumberFormat::plain(type);
  }
  for (const tensor::FormatTraits& traits : tensor::all_format_traits()) {
    if (traits.name != name) continue;
    if (traits.block_columns == 1) break;
    return traits.block_columns == 0 ? NumberFormat::floating(traits.kind) : NumberFormat::block(traits.kind);
  }
  int bits = 0, group = 0;
  if (std::sscanf(name.c_str(), "q%dg%d", &bits, &group) != 2) {
    std::fprintf(stderr, "unknown format %s\n", name.c_str());
    std::exit(2);
  }
  return NumberFormat::affine(bits, group, DType::bf16);
}

// One encoded row of random values, at every row.
tensor::MatrixView make_matrix(const NumberFormat& format, int64_t rows, int64_t columns) {
  std::minstd_rand random(7);
  std::vector<float> values(static_cast<size_t>(columns));
  for (float& value : values) value = static_cast<float>(random() % 1001) / 500 - 1;
  const tensor::EncodedMatrix row = tensor::encode_matrix(format, 1, columns, values);
  std::byte* next = map_pages(format.matrix_bytes(rows, columns) + 64);
  const auto repeat = [&](const std::vector<std::byte>& bytes) -> const std::byte* {
    if (bytes.empty()) return nullptr;
    const std::byte* begin = next;
    for (int64_t r = 0; r < rows; ++r) next = std::copy(bytes.begin(), bytes.end(), next);
    return begin;
  };
  const std::byte* data = repeat(row.data);
  const std::byte* scales = repeat(row.scales);
  return {format, rows, columns, data, scales, repeat(row.biases)};
}

class BenchWorker : public Worker {
 public:
  BenchWorker(int index, base::WorkerTeam* team) : Worker(index, team->size()), team_(team) {}
  void barrier() override { team_->barrier(); }

 private:
  base::WorkerTeam* team_;
};

struct Bench {
  explicit Bench(int threads) : team(threads) {
    for (int i = 0; i < threads; ++i) workers.push_back(std::make_unique<BenchWorker>(i, &team));
  }

  // One thread is timed by its own clock, which other programs on the machine don't advance.
  double now() const { return team.size() == 1 ? thread_seconds_now() : seconds_now(); }

  // Seconds for one pass over all ops.
  double run(const KernelTable& table, const std::vector<MatmulArgs>& ops) {
    std::vector<Worker::Cursor> cursors(ops.size() * Worker::kPhases);
    const double start = now();
    team.run_blocking([&](int index) {
      for (size_t op = 0; op < ops.size(); ++op) {
        workers[index]->set_cursors(&cursors[op * Worker::kPhases]);
        table.fused_matmul(ops[op], *workers[index]);
        team.barrier();
      }
    });
    return now() - start;
  }

  // Seconds to read all bytes of the ops' weights once, matrix by matrix, a linear part per worker.
  double read(const std::vector<MatmulArgs>& ops) {
    const double start = now();
    team.run_blocking([&](int index) {
      uint64_t sum = 0;
      for (const MatmulArgs& op : ops) {
        const int64_t words = op.segments[0].weight.bytes() / 8;
        const auto* data = reinterpret_cast<const uint64_t*>(op.segments[0].weight.data);
        const int64_t begin = words * index / team.size(), end = words * (index + 1) / team.size();
        for (int64_t i = begin; i < end; ++i) sum += data[i];
        team.barrier();
      }
      checksum += sum;
    });
    return now() - start;
  }

  base::WorkerTeam team;
  std::vector<std::unique_ptr<BenchWorker>> workers;
  std::atomic<uint64_t> checksum{0};
};

#if defined(__x86_64__)
// Seconds for `count` rounds of 12 independent bf16 dot products of 64 operations × 16 lanes.
[[gnu::target("avx512f,avx512bf16")]] double time_dots(int64_t count, float* consumed) {
  __m512 sums[12];
  for (int i = 0; i < 12; ++i)
    sums[i] = _mm512_set1_ps(*consumed + static_cast<float>(i));  // none is another's copy
  const __m512bh one = (__m512bh)_mm512_set1_epi32(0x3F803F80);
  const double start = thread_seconds_now();
  for (int64_t i = 0; i < count; ++i) {
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, one, one);
  }
  const double taken = thread_seconds_now() - start;
  for (const auto& sum : sums) *consumed += _mm512_cvtss_f32(sum);
  return taken;
}
#endif

// TFLOP/s of the whole team's bf16 dot products, 0 without them.
double peak_dots(Bench& bench) {
#if defined(__x86_64__)
  if (base::supported_tiers().back() != base::CpuTier::avx512) return 0;
  constexpr int64_t kCount = 4000000;
  std::vector<double> rates;
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<float> consumed(64);
    const double start = seconds_now();
    bench.team.run_blocking([&](int index) { time_dots(kCount, &consumed[index]); });
    rates.push_back(static_cast<double>(kCount) * 12 * 64 * bench.team.size() / (seconds_now() - start) *
                    1e-12);
    if (consumed[0] == 0) std::abort();
  }
  return median(rates);
#else
  return 0;
#endif
}

MatmulArgs product_of(const int32_t* rows, int64_t outputs, int64_t inner, const std::string& name,
                      const float* x, float* out) {
  const bool precise = name.back() == 'p';
  MatmulArgs args;
  args.rows = rows;
  args.columns = inner;
  args.precision = precise ? MatmulPrecision::fp32_inputs : MatmulPrecision::bf16_inputs;
  args.x = x;
  args.segment_count = 1;
  const NumberFormat format = parse_format(precise ? name.substr(0, name.size() - 1) : name);
  args.segments[0] = {make_matrix(format, outputs, inner), nullptr, out};
  return args;
}

void measure(Bench& bench, const KernelTable& table, const std::string& name, int32_t rows, int64_t outputs,
             int64_t inner) {
  const NumberFormat format = parse_format(name.back() == 'p' ? name.substr(0, name.size() - 1) : name);
  const int64_t bytes = format.matrix_bytes(outputs, inner);
  const int64_t copies = rows > 16 ? 2 : std::clamp(kCycledBytes / bytes, int64_t{1}, int64_t{400});
  std::vector<float> x(rows * inner), out(rows * outputs);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  std::vector<MatmulArgs> ops;
  for (int64_t i = 0; i < copies; ++i) {
    ops.push_back(product_of(&rows, outputs, inner, name, x.data(), out.data()));
  }
  const KernelTable::Scratch sizes = table.matmul_scratch(ops[0], rows);
  std::byte* shared = map_pages(static_cast<int64_t>(sizes.shared) + 64);
  for (auto& worker : bench.workers) {
    worker->set_memory({map_pages(static_cast<int64_t>(sizes.per_worker) + 64), sizes.per_worker},
                       {shared, sizes.shared});
  }
  std::vector<double> ratios, product_rates, read_rates;
  const double all_bytes = static_cast<double>(bytes * copies);
  const double operations = 2.0 * rows * static_cast<double>(outputs * inner * copies);
  bench.run(table, ops);
  for (int pair = 0; pair < kPairs; ++pair) {
    const double read = bench.read(ops), product = bench.run(table, ops);
    ratios.push_back(read / product);
    product_rates.push_back((rows > 16 ? operations * 1e-12 : all_bytes * 1e-9) / product);
    read_rates.push_back(all_bytes * 1e-9 / read);
  }
  const char* kernel = table.matmul_kernel_name(format, rows);
  if (rows > 16) {
    std::printf("%-10s M %-4d %ldx%ld  %.3f TFLOP/s\n", name.c_str(), rows, outputs, inner,
                median(product_rates));
  } else {
    std::printf("%-10s M %-4d %ldx%ld %6.1f MiB x%-3ld  %5.1f GB/s, raw read %5.1f: %3.0f %%  %s\n",
                name.c_str(), rows, outputs, inner, static_cast<double>(bytes) / (1 << 20), copies,
                median(product_rates), median(read_rates), 100 * median(ratios), kernel);
  }
  std::fflush(stdout);
  for (const MatmulArgs& args : ops) {
    unmap_pages(args.segments[0].weight.data, bytes + 64);
  }
}

void measure_cached(const KernelTable& table, const std::string& name, int32_t rows, int64_t inner) {
  const int64_t outputs = rows > 16 ? 512 : 64;
  std::vector<float> x(rows * inner, 0.25f), out(rows * outputs);
  const MatmulArgs args = product_of(&rows, outputs, inner, name, x.data(), out.data());
  const KernelTable::Scratch sizes = table.matmul_scratch(args, rows);
  Bench bench(1);
  Worker& worker = *bench.workers[0];
  worker.set_memory({map_pages(static_cast<int64_t>(sizes.per_worker) + 64), sizes.per_worker},
                    {map_pages(static_cast<int64_t>(sizes.shared) + 64), sizes.shared});
  double best = 1e9, best_peak = 1e9;
  float consumed = 0;
  constexpr int64_t kDots = 4000;
  for (int pass = 0; pass < (rows > 16 ? 20 : 300); ++pass) {
    Worker::Cursor cursors[Worker::kPhases];
    worker.set_cursors(cursors);
    const double start = thread_seconds_now();
    table.fused_matmul(args, worker);
    best = std::min(best, thread_seconds_now() - start);
    if (base::supported_tiers().back() == base::CpuTier::avx512) {
      best_peak = std::min(best_peak, time_dots(kDots, &consumed));
    }
  }
  const double operations = 2.0 * rows * outputs * static_cast<double>(inner) / best;
  const double peak = static_cast<double>(kDots) * 12 * 64 / best_peak;
  std::printf(
      "%-10s M %-4d %ldx%ld in cache: %5.1f GB/s per core, %.3f TFLOP/s, %3.0f %% of the bf16 dot peak\n",
      name.c_str(), rows, outputs, inner, static_cast<double>(args.segments[0].weight.bytes()) * 1e-9 / best,
      operations * 1e-12, 100 * operations / peak);
  if (consumed == 1) std::abort();
}

KernelTable table_of(const std::string& tier) {
  KernelTable table;
#if defined(__x86_64__)
  if (tier == "avx512") {
    add_matmul_kernels_avx512(table);
    return table;
  }
  if (tier == "avx2") {
    add_matmul_kernels_avx2(table);
    return table;
  }
#endif
  add_matmul_kernels_portable(table);
  return table;
}

}  // namespace
}  // namespace rafter::kernels

int main(int argc, char** argv) {
  using namespace rafter;
  const auto argument = [&](int i, const char* otherwise) { return argc > i ? argv[i] : otherwise; };
  const std::vector<std::string> all = {"q4g64", "q8g64", "bf16", "q4_0", "q8_0", "q6_k", "f16"};
  if (argument(1, "") == std::string("cache")) {
    const kernels::KernelTable table =
        kernels::table_of(argument(2, base::cpu_tier_name(base::supported_tiers().back())));
    std::vector<std::string> names(argv + std::min(argc, 5), argv + argc);
    for (const std::string& name : names.empty() ? all : names) {
      kernels::measure_cached(table, name, std::atoi(argument(3, "1")), std::atoll(argument(4, "4096")));
    }
    return 0;
  }
  const std::string tier = argument(1, base::cpu_tier_name(base::supported_tiers().back()));
  const int threads = std::atoi(argument(2, std::to_string(base::usable_cores()).c_str()));
  const int rows = std::atoi(argument(3, "1"));
  const int64_t outputs = std::atoll(argument(4, "4096")), inner = std::atoll(argument(5, "4096"));
  std::vector<std::string> formats(argv + std::min(argc, 6), argv + argc);
  if (formats.empty()) formats = all;
  kernels::Bench bench(threads);
  if (rows > 16) std::printf("peak of bf16 dot products: %.3f TFLOP/s\n", kernels::peak_dots(bench));
  const kernels::KernelTable table = kernels::table_of(tier);
  for (const std::string& format : formats) {
    kernels::measure(bench, table, format, rows, outputs, inner);
  }
  std::printf("checksum %lx\n", static_cast<unsigned long>(bench.checksum.load()));
}

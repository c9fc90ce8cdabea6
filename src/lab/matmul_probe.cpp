#include "lab/matmul_probe.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "device/host_memory.h"
#include "kernels/cpu/cpu_kernels.h"
#include "lab/statistics.h"

namespace rafter::lab {

using kernels::KernelTable;
using kernels::MatmulArgs;
using kernels::Worker;

namespace {

constexpr int kPairs = 9;
constexpr int64_t kCycledBytes = int64_t{384} << 20;
constexpr int64_t kMostCopies = 400;

class TeamWorker final : public Worker {
 public:
  TeamWorker(int index, base::WorkerTeam& team) : Worker(index, team.size()), team_(team) {}
  void barrier() override { team_.barrier(); }

 private:
  base::WorkerTeam& team_;
};

// Copies of one matrix and the products that read them in turn.
struct Products {
  device::HostMemory weights, scratch;
  std::vector<float> x, out;
  int32_t rows = 1;
  std::vector<MatmulArgs> ops;
  std::vector<Worker::Cursor> cursors;
};

int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Bytes whose every 16-bit word is a small finite number as bf16 and as fp16: valid scales, and codes like
// any.
void fill_small_numbers(std::span<std::byte> bytes) {
  std::minstd_rand random(7);
  auto* words = reinterpret_cast<uint16_t*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / 2; ++i) {
    words[i] = static_cast<uint16_t>(0x2000 | (static_cast<uint32_t>(random()) & 0x9CFF));
  }
}

base::Status make_products(const MatmulProbe& probe, Products& products) {
  const int64_t data = round_up(probe.outputs * probe.format.row_bytes(probe.inputs));
  const int64_t scales = round_up(probe.outputs * probe.format.scale_row_bytes(probe.inputs));
  const int64_t copy = data + 2 * scales;
  const int64_t copies = probe.rows > 16 ? 2 : std::clamp(kCycledBytes / copy, int64_t{1}, kMostCopies);
  RAFTER_ASSIGN(products.weights, device::HostMemory::reserve(static_cast<size_t>(copy * copies)));
  fill_small_numbers(products.weights.bytes().first(static_cast<size_t>(copy * copies)));
  products.rows = probe.rows;
  products.x.resize(static_cast<size_t>(probe.rows * probe.inputs));
  for (size_t i = 0; i < products.x.size(); ++i) products.x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  products.out.resize(static_cast<size_t>(probe.rows * probe.outputs));
  for (int64_t i = 0; i < copies; ++i) {
    std::byte* memory = products.weights.data() + i * copy;
    MatmulArgs args;
    args.rows = &products.rows;
    args.columns = probe.inputs;
    args.x = products.x.data();
    args.segment_count = 1;
    args.segments[0].weight = {probe.format,
                               probe.outputs,
                               probe.inputs,
                               memory,
                               scales > 0 ? memory + data : nullptr,
                               scales > 0 ? memory + data + scales : nullptr};
    args.segments[0].out = products.out.data();
    products.ops.push_back(args);
  }
  products.cursors = std::vector<Worker::Cursor>(products.ops.size() * Worker::kPhases);
  return {};
}

double run_seconds(const KernelTable& table, base::WorkerTeam& team,
                   std::vector<std::unique_ptr<TeamWorker>>& workers, Products& products) {
  for (Worker::Cursor& cursor : products.cursors) cursor.next.store(0, std::memory_order_relaxed);
  const auto start = std::chrono::steady_clock::now();
  team.run_blocking([&](int index) {
    Worker& worker = *workers[static_cast<size_t>(index)];
    for (size_t op = 0; op < products.ops.size(); ++op) {
      worker.set_cursors(&products.cursors[op * Worker::kPhases]);
      table.fused_matmul(products.ops[op], worker);
      team.barrier();
    }
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MatmulProbe decode_shape(const tensor::NumberFormat& format, double mib) {
  MatmulProbe probe;
  probe.format = format;
  probe.inputs = mib < 8 ? 1536 : 4096;
  const double row = static_cast<double>(format.matrix_bytes(64, probe.inputs)) / 64;
  probe.outputs = std::max<int64_t>(static_cast<int64_t>(mib * (1 << 20) / row) / 64, 1) * 64;
  return probe;
}

base::Result<MatmulFigure> measure_matmul(const MatmulProbe& probe, base::CpuTier tier, int threads,
                                          RawRead& raw) {
  const KernelTable& table = kernels::cpu_kernels(tier);
  if (table.fused_matmul == nullptr || !table.supports_format(probe.format)) {
    return base::Error{base::ErrorCode::unsupported,
                       fmt::format("the {} kernels cannot read {}", table.name, probe.format.name()), "probe",
                       ""};
  }
  Products products;
  RAFTER_TRY(make_products(probe, products));
  RAFTER_ASSIGN(auto team, base::WorkerTeam::create(threads));
  std::vector<std::unique_ptr<TeamWorker>> workers;
  const KernelTable::Scratch sizes = table.matmul_scratch(products.ops[0], probe.rows);
  const auto shared = static_cast<size_t>(round_up(static_cast<int64_t>(sizes.shared)));
  const auto own = static_cast<size_t>(round_up(static_cast<int64_t>(sizes.per_worker)));
  RAFTER_ASSIGN(products.scratch,
                device::HostMemory::reserve(shared + own * static_cast<size_t>(threads) + 64));
  const std::span<std::byte> scratch = products.scratch.bytes();
  for (int i = 0; i < threads; ++i) {
    workers.push_back(std::make_unique<TeamWorker>(i, *team));
    workers.back()->set_memory(scratch.subspan(shared + own * static_cast<size_t>(i), own),
                               scratch.first(shared));
  }

  const double bytes = static_cast<double>(probe.format.matrix_bytes(probe.outputs, probe.inputs)) *
                       static_cast<double>(products.ops.size());
  const double operations = 2.0 * probe.rows * static_cast<double>(probe.outputs * probe.inputs) *
                            static_cast<double>(products.ops.size());
  run_seconds(table, *team, workers, products);
  std::vector<double> ratios, times;
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto pass = static_cast<int64_t>(bytes);
    const double read = raw.read_seconds(pass) * bytes / raw.bytes_read_by(pass);
    times.push_back(run_seconds(table, *team, workers, products));
    ratios.push_back(100 * read / times.back());
  }
  MatmulFigure figure;
  figure.mib = bytes / static_cast<double>(products.ops.size()) / (1 << 20);
  figure.gbps = bytes * 1e-9 / median_of(times);
  figure.raw_percent = median_of(ratios);
  figure.tflops = operations * 1e-12 / median_of(times);
  return figure;
}

}  // namespace rafter::lab

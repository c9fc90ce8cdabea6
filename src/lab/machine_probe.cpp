#include "lab/machine_probe.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>

#include "kernels/cpu/cpu_kernels.h"
#include "lab/statistics.h"

namespace rafter::lab {
namespace {

constexpr int kPasses = 9;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double read_gbps(RawRead& raw, int64_t bytes) {
  std::vector<double> times;
  for (int pass = 0; pass < kPasses; ++pass) times.push_back(raw.read_seconds(bytes));
  return raw.bytes_read_by(bytes) * 1e-9 / median_of(times);
}

base::Status measure_reads(const MachineProbeOptions& options, base::CpuTier tier, MachineFigures& figures) {
  std::vector<int64_t> sizes;
  for (double gib : options.read_gib) {
    const auto bytes = static_cast<int64_t>(gib * (1 << 30));
    if (bytes <= static_cast<int64_t>(device::available_memory() / 2)) sizes.push_back(bytes);
  }
  if (sizes.empty()) sizes.push_back(int64_t{256} << 20);
  const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
  {
    RAFTER_ASSIGN(RawRead raw, RawRead::create(largest, tier, figures.threads));
    raw.choose_reader();
    figures.reader = raw.reader();
    for (int64_t size : sizes) {
      const double gbps = read_gbps(raw, size);
      figures.raw_read_by_size.push_back({static_cast<double>(size) / (1 << 30), gbps});
      figures.raw_read_gbps = std::max(figures.raw_read_gbps, gbps);
    }
    figures.checksum += raw.checksum();
  }
  for (int threads = 1; threads <= figures.threads; threads = threads < 4 ? threads + 1 : threads * 2) {
    RAFTER_ASSIGN(RawRead raw, RawRead::create(sizes.front(), tier, threads));
    raw.choose_reader();
    figures.raw_read_by_threads.push_back({threads, read_gbps(raw, sizes.front())});
    figures.checksum += raw.checksum();
  }
  return {};
}

// Microseconds of each of `count` rounds of `body` run by every worker of one region.
template <typename Body>
double microseconds_each(base::WorkerTeam& team, int count, const Body& body) {
  std::vector<double> times;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    team.run_blocking([&](int index) {
      for (int i = 0; i < count; ++i) body(index, i);
    });
    times.push_back(seconds_since(start) * 1e6 / count);
  }
  return median_of(times);
}

void measure_meeting(base::CpuTier tier, base::WorkerTeam& team, MachineFigures& figures) {
  constexpr int kRounds = 4000;
  figures.barrier_us = microseconds_each(team, kRounds, [&](int, int) { team.barrier(); });

  // Each adds a short vector to what the one before it left.
  class TeamWorker final : public kernels::Worker {
   public:
    TeamWorker(int index, base::WorkerTeam& owner) : Worker(index, owner.size()), owner_(owner) {}
    void barrier() override { owner_.barrier(); }

   private:
    base::WorkerTeam& owner_;
  };
  constexpr int kWidth = 64;
  const kernels::KernelTable& table = kernels::cpu_kernels(tier);
  std::vector<float> sums(kWidth, 0.0f), ones(kWidth, 1.0f);
  const int32_t rows = 1;
  kernels::AddArgs add;
  add.rows = &rows;
  add.width = kWidth;
  add.a = sums.data(), add.b = ones.data(), add.out = sums.data();
  std::vector<kernels::Worker::Cursor> cursors(kRounds * kernels::Worker::kPhases);
  std::vector<double> times;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (auto& cursor : cursors) cursor.next.store(0, std::memory_order_relaxed);
    const auto start = std::chrono::steady_clock::now();
    team.run_blocking([&](int index) {
      TeamWorker worker(index, team);
      for (int i = 0; i < kRounds; ++i) {
        worker.set_cursors(&cursors[static_cast<size_t>(i) * kernels::Worker::kPhases]);
        table.add(add, worker);
        team.barrier();
      }
    });
    times.push_back(seconds_since(start) * 1e6 / kRounds);
  }
  figures.tiny_op_us = median_of(times);
  figures.checksum += static_cast<uint64_t>(sums[0]);

  times.clear();
  for (int pass = 0; pass < 200; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    team.run_blocking([](int) {});
    times.push_back(seconds_since(start) * 1e6);
  }
  figures.launch_us = median_of(times);
}

}  // namespace

std::vector<PeakFigure> measure_peaks(base::CpuTier tier, base::WorkerTeam& team, uint64_t& checksum) {
  constexpr double kSeconds = 0.02;
  std::vector<PeakFigure> peaks;
  for (const kernels::PeakProbe& probe : kernels::cpu_probes(tier).peaks) {
    std::atomic<uint64_t> consumed{0};
    const auto run = [&](int64_t rounds) {
      const auto start = std::chrono::steady_clock::now();
      team.run_blocking([&](int) { consumed += std::bit_cast<uint32_t>(probe.run(rounds)); });
      return seconds_since(start);
    };
    constexpr int64_t kTrial = 100000;
    run(kTrial);
    const auto rounds = static_cast<int64_t>(kTrial * kSeconds / std::max(run(kTrial), 1e-6)) + 1;
    std::vector<double> times;
    for (int pass = 0; pass < kPasses; ++pass) times.push_back(run(rounds));
    // The fastest pass: a peak is what nothing may exceed.
    const double fastest = *std::min_element(times.begin(), times.end());
    peaks.push_back({probe.name, static_cast<double>(rounds) * probe.operations_per_round * team.size() *
                                     1e-12 / fastest});
    checksum += consumed;
  }
  return peaks;
}

base::Result<MachineFigures> measure_machine(const MachineProbeOptions& options) {
  const auto say = [&](const std::string& what) {
    if (options.progress) options.progress(what);
  };
  const MachineLoad load;
  MachineFigures figures;
  RAFTER_ASSIGN(const base::CpuTier tier, base::select_tier());
  figures.processor = base::cpu_model_name();
  figures.tier = base::cpu_tier_name(tier);
  figures.threads = options.threads > 0 ? options.threads : base::usable_cores();
  say("raw read");
  RAFTER_TRY(measure_reads(options, tier, figures));
  say("arithmetic");
  RAFTER_ASSIGN(auto team, base::WorkerTeam::create(figures.threads));
  figures.peaks = measure_peaks(tier, *team, figures.checksum);
  measure_meeting(tier, *team, figures);

  std::vector<tensor::NumberFormat> formats = options.formats;
  if (formats.empty()) {
    formats = {tensor::NumberFormat::affine(4, 64, tensor::DType::bf16),
               tensor::NumberFormat::affine(8, 64, tensor::DType::bf16),
               tensor::NumberFormat::plain(tensor::DType::bf16)};
  }
  // As much as the largest pass over matrices, which cycles over so many small ones and no more.
  constexpr double kCopies = 400;
  double largest_mib = 0;
  for (double mib : options.matrix_mib) largest_mib = std::max(largest_mib, mib);
  const auto read_mib = static_cast<int64_t>(std::clamp(kCopies * largest_mib, 64.0, 512.0));
  RAFTER_ASSIGN(RawRead raw, RawRead::create(read_mib << 20, tier, figures.threads));
  raw.choose_reader();
  for (const tensor::NumberFormat& format : formats) {
    for (double mib : options.matrix_mib) {
      say(fmt::format("{} matrices of {} MiB", format.name(), mib));
      RAFTER_ASSIGN(const MatmulFigure figure,
                    measure_matmul(decode_shape(format, mib), tier, figures.threads, raw));
      figures.matrices.push_back({format.name(), figure});
    }
  }
  figures.checksum += raw.checksum();
  figures.load = load.report();
  return figures;
}

}  // namespace rafter::lab

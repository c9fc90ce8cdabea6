// Speed of the gated delta rule on one layer of Qwen3.5-4B's shape: GB/s of state read and written with one
// row per step, microseconds per row with many.
//
//   delta_net_bench [tier] [threads]
//
// Decode cycles over 128 slots of 2 MiB, more than a last-level cache holds; figures are medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/worker_team.h"
#include "cache/recurrent_store.h"
#include "kernels/cpu/cpu_kernels.h"

namespace rafter::kernels {
namespace {

constexpr RecurrentShape kShape = {16, 32, 128, 128, 4, false};
constexpr int32_t kSlots = 128;

class BenchWorker : public Worker {
 public:
  BenchWorker(int index, base::WorkerTeam* team)
      : Worker(index, team->size()), team_(team), scratch_(static_cast<size_t>(kShape.tile_floats())) {
    set_memory(std::as_writable_bytes(std::span(scratch_)), {});
  }
  void barrier() override { team_->barrier(); }

 private:
  base::WorkerTeam* team_;
  std::vector<float> scratch_;
};

double median_seconds(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

void run(const KernelTable& table, int threads) {
  base::WorkerTeam team(threads);
  std::vector<std::unique_ptr<BenchWorker>> workers;
  for (int i = 0; i < threads; ++i) workers.push_back(std::make_unique<BenchWorker>(i, &team));
  cache::RecurrentStore store = cache::RecurrentStore::create({kShape}, kSlots, 0).value();
  for (int32_t count : {1, 128}) {
    const std::vector<float> q(static_cast<size_t>(count * kShape.key_width()), 0.01f), k = q;
    const std::vector<float> v(static_cast<size_t>(count * kShape.value_width()), 0.5f);
    const std::vector<float> gates(static_cast<size_t>(count * 2 * kShape.value_heads), 0.5f);
    std::vector<float> out(v.size());
    std::vector<int32_t> rows(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) rows[static_cast<size_t>(i)] = i;
    std::vector<double> seconds;
    for (int step = 0; step < (count == 1 ? 4 : 1) * kSlots; ++step) {
      const RecurrentRun one = store.begin(step % kSlots, 0, count);
      const RecurrentInput input = {1, &one, rows.data()};
      const GatedDeltaArgs args = {&input,   store.layer(0), q.data(),  k.data(),
                                   v.data(), gates.data(),   out.data()};
      Worker::Cursor cursors[Worker::kPhases];
      const auto start = std::chrono::steady_clock::now();
      team.run_blocking([&](int index) {
        workers[static_cast<size_t>(index)]->set_cursors(cursors);
        table.gated_delta(args, *workers[static_cast<size_t>(index)]);
      });
      if (step >= kSlots / 2)
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const double time = median_seconds(seconds);
    if (count == 1) {
      std::printf("%s, %d threads: 1 row %.0f us, %.1f GB/s\n", table.name, threads, time * 1e6,
                  static_cast<double>(2 * kShape.state_floats() * 4) / time * 1e-9);
    } else {
      std::printf("%s, %d threads: %d rows, %.1f us per row\n", table.name, threads, count,
                  time * 1e6 / count);
    }
  }
}

}  // namespace
}  // namespace rafter::kernels

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  for (const rafter::base::CpuTier tier : rafter::base::supported_tiers()) {
    const auto& table = rafter::kernels::cpu_kernels(tier);
    if (wanted.empty() || wanted == table.name) rafter::kernels::run(table, threads);
  }
  return 0;
}

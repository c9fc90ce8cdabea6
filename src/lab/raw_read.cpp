#include "lab/raw_read.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/check.h"

namespace rafter::lab {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

base::Result<RawRead> RawRead::create(int64_t bytes, base::CpuTier tier, int threads) {
  if (bytes > static_cast<int64_t>(device::available_memory() / 2)) {
    return base::Error{
        base::ErrorCode::out_of_memory,
        fmt::format("a buffer of {} bytes to read takes more than half of the free memory", bytes),
        "raw read", "free some memory"};
  }
  RawRead read;
  RAFTER_ASSIGN(read.team_, base::WorkerTeam::create(threads));
  read.probes_ = kernels::cpu_probes(tier);
  read.reader_ = &read.probes_.readers.front();
  read.bytes_ = std::max(bytes, threads * kernels::kReadGranule);
  RAFTER_ASSIGN(read.memory_, device::HostMemory::reserve(static_cast<size_t>(read.bytes_)));
  const int64_t words = read.bytes_ / 8;
  read.team_->run_blocking([&](int index) {  // touched by the worker that reads it; no two words alike
    auto* data = reinterpret_cast<uint64_t*>(read.memory_.data());
    const int64_t end = words * (index + 1) / threads;
    for (int64_t i = words * index / threads; i < end; ++i)
      data[i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
  });
  return read;
}

int64_t RawRead::part_of(int64_t bytes) const {
  const int64_t part = std::min(bytes, bytes_) / team_->size();
  return std::max(part / kernels::kReadGranule, int64_t{1}) * kernels::kReadGranule;
}

double RawRead::bytes_read_by(int64_t bytes) const {
  return static_cast<double>(part_of(bytes)) * team_->size();
}

double RawRead::time(const kernels::ReadProbe& reader, int64_t bytes) {
  const int64_t part = part_of(bytes);
  RAFTER_CHECK(part * team_->size() <= bytes_, "a pass of {} bytes over {}", part * team_->size(), bytes_);
  std::atomic<uint64_t> sum{0};
  const auto start = std::chrono::steady_clock::now();
  team_->run_blocking([&](int index) { sum += reader.run(memory_.data() + index * part, part); });
  const double taken = seconds_since(start);
  checksum_ += sum;
  return taken;
}

double RawRead::read_seconds(int64_t bytes) { return time(*reader_, bytes); }

void RawRead::choose_reader() {
  constexpr int kPasses = 3;
  double best = 0;
  for (const kernels::ReadProbe& reader : probes_.readers) {
    double fastest = 1e30;
    for (int pass = 0; pass < kPasses; ++pass) fastest = std::min(fastest, time(reader, bytes_));
    if (best == 0 || fastest < best) {
      best = fastest;
      reader_ = &reader;
    }
  }
}

}  // namespace rafter::lab

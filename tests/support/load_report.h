// What a load test saw, and what must hold of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace rafter::testing {

struct LoadReport {
  struct Memory {
    double seconds = 0;                         // since the load began
    int64_t front_bytes = 0, worker_bytes = 0;  // resident
  };

  double seconds = 0;
  std::map<int, int64_t> answers;  // by status
  int64_t streams = 0, cancelled = 0, slow = 0, malformed = 0, generated_bytes = 0;
  int64_t broken = 0;             // streams that ended without their last event, or with an error
  int64_t unanswered = 0;         // requests that got no byte for a minute
  std::string first_fault;        // the request and the answer of the first that went wrong
  std::vector<double> health_ms;  // from the question to the answer
  int64_t health_failures = 0;    // other answers than 200, or none within five seconds
  std::vector<Memory> memory;     // once a second
  int64_t idle_connections = 0, idle_answered = 0;  // held all the while, and asked at the end
  // At the end, without a client.
  int64_t active = -1, queued = -1, open_streams = -1, cache_bytes = -1, prefix_bytes = -1, restarts = -1;
};

struct LoadBounds {
  double health_p99_ms = 50;
  double warm_up_share = 0.25;  // of the time; memory may grow until then
  double memory_share = 0.02;   // up or down of the mean afterwards
};

// The smallest value that so large a share of the values does not exceed. `values` is not empty.
inline double quantile(std::vector<double> values, double share) {
  const auto index =
      std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

// How far a process' memory moved after the warm-up, as a share: from the mean of the first third of what
// follows to that of the last. Single samples tell of requests under way, not of what is lost.
inline double memory_drift(const LoadReport& report, int64_t LoadReport::Memory::* bytes,
                           double warm_up_share) {
  std::vector<double> after;
  for (const LoadReport::Memory& sample : report.memory) {
    if (sample.seconds >= warm_up_share * report.seconds) after.push_back(static_cast<double>(sample.*bytes));
  }
  const size_t third = after.size() / 3;
  if (third == 0) return 0;
  double first = 0, last = 0;
  for (size_t i = 0; i < third; ++i) {
    first += after[i];
    last += after[after.size() - 1 - i];
  }
  return first > 0 ? last / first - 1 : 1;
}

// One line per fault; empty if there is none.
inline std::vector<std::string> load_faults(const LoadReport& report, const LoadBounds& bounds = {}) {
  std::vector<std::string> faults;
  const auto check = [&](bool holds, std::string fault) {
    if (!holds) faults.push_back(std::move(fault));
  };
  int64_t answers = 0;
  for (const auto& [status, count] : report.answers) {
    check(status < 500, fmt::format("{} answers with status {}: {}", count, status, report.first_fault));
    answers += count;
  }
  check(answers > 0 && report.streams + report.cancelled > 0, "no streams were answered");
  check(report.broken == 0, fmt::format("{} broken streams: {}", report.broken, report.first_fault));
  check(report.unanswered == 0,
        fmt::format("{} requests without an answer: {}", report.unanswered, report.first_fault));
  check(report.health_failures == 0, fmt::format("{} failures of /health", report.health_failures));
  check(!report.health_ms.empty(), "/health was not asked");
  if (!report.health_ms.empty()) {
    const double p99 = quantile(report.health_ms, 0.99);
    check(p99 < bounds.health_p99_ms, fmt::format("/health p99 is {:.1f} ms", p99));
  }
  check(report.active == 0 && report.queued == 0,
        fmt::format("stuck rows: {} active, {} queued", report.active, report.queued));
  check(report.open_streams == 0, fmt::format("{} open streams", report.open_streams));
  check(report.cache_bytes == report.prefix_bytes && report.cache_bytes >= 0,
        fmt::format("{} bytes of cache, {} of them accounted for", report.cache_bytes, report.prefix_bytes));
  check(report.restarts == 0, fmt::format("{} restarts of the worker", report.restarts));
  check(report.memory.size() >= 8, "memory was not watched");
  using Memory = LoadReport::Memory;
  const std::pair<const char*, int64_t Memory::*> processes[] = {{"front", &Memory::front_bytes},
                                                                 {"worker", &Memory::worker_bytes}};
  for (const auto& [name, bytes] : processes) {
    const double drift = memory_drift(report, bytes, bounds.warm_up_share);
    check(std::abs(drift) <= bounds.memory_share,
          fmt::format("memory of the {} moved by {:.1f} %", name, 100 * drift));
  }
  check(report.idle_answered == report.idle_connections,
        fmt::format("{} of {} idle connections are left", report.idle_answered, report.idle_connections));
  return faults;
}

}  // namespace rafter::testing

// Planted faults in what a load test saw: its checker must see every one.
#include <gtest/gtest.h>

#include "tests/support/load_report.h"

namespace rafter::testing {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

LoadReport good_report() {
  LoadReport report;
  report.seconds = 100;
  report.answers = {{200, 900}, {400, 80}, {429, 3}};
  report.streams = 900;
  for (int i = 0; i < 1000; ++i) report.health_ms.push_back(i % 120 == 0 ? 70 : 2);
  for (int i = 0; i < 100; ++i) {
    const int64_t warming = std::max(0, 20 - i), noise = i % 3;
    report.memory.push_back(
        {double(i), (50 - warming + noise) * kMegabyte, (400 - 5 * warming + noise) * kMegabyte});
  }
  report.idle_connections = report.idle_answered = 1000;
  report.active = report.queued = report.open_streams = report.restarts = 0;
  report.cache_bytes = report.prefix_bytes = 12345;
  return report;
}

std::string fault_of(const std::function<void(LoadReport&)>& plant) {
  LoadReport report = good_report();
  plant(report);
  const auto faults = load_faults(report);
  return faults.size() == 1 ? faults[0] : fmt::format("{} faults", faults.size());
}

#define EXPECT_FAULT(what, ...)                                                  \
  {                                                                              \
    const std::string fault = fault_of([](LoadReport& report) { __VA_ARGS__; }); \
    EXPECT_NE(fault.find(what), std::string::npos) << fault;                     \
  }

TEST(LoadMutants, NoFaultIsSeenWhereThereIsNone) {
  EXPECT_EQ(load_faults(good_report()), std::vector<std::string>());
}

TEST(LoadMutants, AnswersAndStreams) {
  EXPECT_FAULT("status 500", report.answers[500] = 1);
  EXPECT_FAULT("status 503", report.answers[503] = 1);
  EXPECT_FAULT("broken", report.broken = 1);
  EXPECT_FAULT("without an answer", report.unanswered = 1);
  EXPECT_FAULT("no streams", report.streams = 0);
}

TEST(LoadMutants, RowsAndBlocksThatStay) {
  EXPECT_FAULT("stuck rows", report.active = 1);
  EXPECT_FAULT("stuck rows", report.queued = 1);
  EXPECT_FAULT("stuck rows", report.active = -1);  // not asked
  EXPECT_FAULT("open streams", report.open_streams = 1);
  EXPECT_FAULT("accounted", report.cache_bytes += 64);
  EXPECT_FAULT("accounted", report.cache_bytes = report.prefix_bytes = -1);
  EXPECT_FAULT("restarts", report.restarts = 1);
}

TEST(LoadMutants, MemoryThatGrows) {
  EXPECT_FAULT("memory of the front", for (auto& sample : report.memory) sample.front_bytes +=
                                      static_cast<int64_t>(sample.seconds * 30'000));  // 3 MB in 100 s
  EXPECT_FAULT("memory of the worker", for (auto& sample : report.memory) sample.worker_bytes +=
                                       static_cast<int64_t>(sample.seconds * 300'000));
  EXPECT_FAULT("memory of the worker",
               for (auto& sample : report.memory) if (sample.seconds > 70) sample.worker_bytes /= 2);
  EXPECT_FAULT("not watched", report.memory.clear());
}

TEST(LoadMutants, HealthAndConnections) {
  EXPECT_FAULT("p99", for (size_t i = 0; i < report.health_ms.size(); i += 50) report.health_ms[i] = 60);
  EXPECT_FAULT("failures of /health", report.health_failures = 1);
  EXPECT_FAULT("not asked", report.health_ms.clear());
  EXPECT_FAULT("999 of 1000", report.idle_answered = 999);
}

}  // namespace
}  // namespace rafter::testing

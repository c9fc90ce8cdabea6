// Load on the program with the starter model: scripts/serving-load runs it for ten minutes and keeps a
// record, the test suite for half a minute. RAFTER_LOAD_SECONDS and RAFTER_LOAD_RECORD say so.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "tests/support/load_generator.h"
#include "tests/support/serve_program.h"

namespace rafter::testing {
namespace {

const std::string kModel = std::string(RAFTER_SOURCE_DIR) + "/build/models/smollm2-135m-instruct.gguf";

void write_record(const LoadPlan& plan, const LoadReport& report, const LoadBounds& bounds,
                  const std::string& path) {
  nlohmann::ordered_json answers;
  for (const auto& [status, count] : report.answers) answers[std::to_string(status)] = count;
  const auto rounded = [](double value) { return std::round(value * 1000) / 1000; };
  const LoadReport::Memory& last = report.memory.back();
  const nlohmann::ordered_json record = {
      {"model", std::filesystem::path(kModel).filename()},
      {"seconds", std::round(report.seconds)},
      {"concurrent_streams", plan.streams},
      {"slow_readers", plan.slow_readers},
      {"malformed_clients", plan.malformed},
      {"answers", answers},
      {"streams", report.streams},
      {"cancelled", report.cancelled},
      {"slow", report.slow},
      {"malformed", report.malformed},
      {"broken", report.broken},
      {"health",
       {{"asked", report.health_ms.size()},
        {"failures", report.health_failures},
        {"p50_ms", rounded(quantile(report.health_ms, 0.5))},
        {"p99_ms", rounded(quantile(report.health_ms, 0.99))},
        {"worst_ms", rounded(quantile(report.health_ms, 1))}}},
      {"memory",
       {{"front_bytes", last.front_bytes},
        {"front_drift",
         rounded(memory_drift(report, &LoadReport::Memory::front_bytes, bounds.warm_up_share))},
        {"worker_bytes", last.worker_bytes},
        {"worker_drift",
         rounded(memory_drift(report, &LoadReport::Memory::worker_bytes, bounds.warm_up_share))}}},
      {"idle_connections", report.idle_connections},
      {"idle_answered", report.idle_answered},
      {"rows_left", report.active + report.queued},
      {"cache_bytes_left", report.cache_bytes},
      {"of_kept_prefixes", report.prefix_bytes},
      {"faults", load_faults(report, bounds)}};
  std::ofstream(path) << record.dump(1) << "\n";
}

TEST(Load, NothingBreaksSticksGrowsOrWaits) {
  if (!std::filesystem::exists(kModel)) GTEST_SKIP() << "make build/models/… fetches the model";
  const char* const seconds = std::getenv("RAFTER_LOAD_SECONDS");
  const char* const record = std::getenv("RAFTER_LOAD_RECORD");
  ServeProgram server(kModel, {"--batch", "64", "--queue", "64", "--ctx", "2048", "--prompt-cache", "32MB"});
  LoadPlan plan;
  plan.port = server.port();
  plan.front = server.pid();
  plan.worker = server.worker();
  plan.seconds = seconds != nullptr ? std::atof(seconds) : 25;
  LoadBounds bounds;
  if (seconds == nullptr) {
    // Beside other tests and under sanitizers, for a time in which caches fill: whether it is flat is for the
    // long run to see.
    bounds = {.health_p99_ms = 500, .warm_up_share = 0.5, .memory_share = 1};
    if (std::getenv("RAFTER_ORACLE_SAMPLE") != nullptr) plan.streams = 16;
  }
  const LoadReport report = run_load_blocking(plan);
  fmt::print(
      "{} streams, {} cancelled, {} malformed; /health p99 {:.1f} ms of {}; memory {:+.1f} % and {:+.1f} %\n",
      report.streams, report.cancelled, report.malformed, quantile(report.health_ms, 0.99),
      report.health_ms.size(),
      100 * memory_drift(report, &LoadReport::Memory::front_bytes, bounds.warm_up_share),
      100 * memory_drift(report, &LoadReport::Memory::worker_bytes, bounds.warm_up_share));
  if (record != nullptr) write_record(plan, report, bounds, record);
  for (const std::string& fault : load_faults(report, bounds)) ADD_FAILURE() << fault;
  EXPECT_EQ(server.end(SIGTERM), 0);
}

}  // namespace
}  // namespace rafter::testing

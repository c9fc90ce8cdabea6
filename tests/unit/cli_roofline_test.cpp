// roofline bw and roofline step from outside: the keys that scripts read, and what is refused.
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

using nlohmann::json;
using testing::ProgramResult;
using testing::run_program;

json run_json(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  return json::parse(result.out, nullptr, false);
}

void expect_keys(const json& object, const std::vector<const char*>& keys) {
  ASSERT_TRUE(object.is_object()) << object.dump();
  for (const char* key : keys) EXPECT_TRUE(object.contains(key)) << key;
}

TEST(CliRoofline, BandwidthKeys) {
  const json figures =
      run_json({"roofline", "bw", "--threads", "1", "--gib", "0.02", "0.01", "--mib", "0.1", "--json"});
  expect_keys(figures, {"raw_read_gbps", "raw_read_by_threads", "qmv", "tiny_op_us", "barrier_us",
                        "launch_us", "readback_us", "checksum", "peaks", "busy"});
  ASSERT_EQ(figures.at("raw_read_by_size").size(), 2u);
  EXPECT_NEAR(figures.at("raw_read_by_size")[0].at("gib").get<double>(), 0.02, 1e-6);
  ASSERT_EQ(figures.at("raw_read_by_threads").size(), 1u);
  ASSERT_EQ(figures.at("qmv").size(), 3u);  // three formats
  for (const json& matrix : figures.at("qmv")) {
    expect_keys(matrix, {"format", "mib", "gbps"});
    EXPECT_GT(matrix.at("gbps").get<double>(), 0);
  }
  EXPECT_GT(figures.at("raw_read_gbps").get<double>(), 0);
  EXPECT_NE(figures.at("checksum"), 0);
}

TEST(CliRoofline, StepKeysAndTrace) {
  const testing::TempFolder folder;
  const std::string model = testing::write_synth_model("qwen3-tiny", "mlx4", folder.path());
  const json step = run_json({"roofline", "step", model, "--ctx", "16", "--batch", "2", "--threads", "1",
                              "--json", "--trace", folder / "trace.json"});
  expect_keys(step,
              {"model",        "device",     "ctx",           "batch",       "kv",          "bytes_per_token",
               "weight_bytes", "kv_bytes",   "raw_read_gbps", "kernel_gbps", "floor_ms",    "ceiling_tps",
               "step_ms",      "tps",        "compute_ms",    "host_ms",     "readback_ms", "roofline_pct",
               "floor_pct",    "spread_pct", "busy",          "ops"});
  EXPECT_EQ(step.at("ctx"), 16);
  EXPECT_EQ(step.at("batch"), 2);
  ASSERT_FALSE(step.at("ops").empty());
  for (const json& op : step.at("ops")) expect_keys(op, {"op", "calls", "bytes", "us", "gbps", "share"});
  const json trace = json::parse(testing::read_file(folder / "trace.json"), nullptr, false);
  EXPECT_TRUE(trace.contains("traceEvents"));
}

TEST(CliRoofline, SaysWhatIsWrong) {
  EXPECT_EQ(run_program({"roofline"}).exit_code, 2);
  EXPECT_EQ(run_program({"roofline", "bw", "--gib", "0"}).exit_code, 2);
  EXPECT_EQ(run_program({"roofline", "step"}).exit_code, 2);
  EXPECT_EQ(run_program({"roofline", "step", "/none/such"}).exit_code, 1);
}

}  // namespace
}  // namespace rafter::cli

// bench, evals and fit from outside: the keys that scripts read, what is recorded, and what is refused.
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

using nlohmann::json;
using testing::ProgramResult;
using testing::run_program;

class CliBench : public ::testing::Test {
 protected:
  json run_json(const std::vector<std::string>& arguments, int exit_code = 0) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    return json::parse(result.out, nullptr, false);
  }
  json bench() {
    return run_json({"bench", model, "--prefill", "8,40", "--ctx", "4,20", "--rows", "1,3", "--pairs", "1",
                     "--steps", "2", "--passes", "1", "--threads", "1", "--json"});
  }

  const testing::TempFolder folder;
  const testing::ScopedVariable cache{"XDG_CACHE_HOME", (folder / "cache").c_str()};
  const std::string model = testing::write_synth_model("qwen3-tiny", "mlx4", folder / "model");
};

TEST_F(CliBench, MeasuresAndRecords) {
  const json first = bench();
  ASSERT_TRUE(first.is_object());
  ASSERT_EQ(first.at("prefill").size(), 2u);
  EXPECT_EQ(first.at("prefill")[1].at("tokens"), 40);
  ASSERT_EQ(first.at("decode").size(), 4u);
  for (const json& figure : first.at("decode")) {
    for (const char* key : {"tps", "gbps", "roofline_pct", "compute_pct", "step_ms"})
      EXPECT_GT(figure.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(first.at("decode")[3].at("rows"), 3);
  EXPECT_GT(first.at("peak_rss_bytes").get<int64_t>(), 0);
  EXPECT_EQ(first.at("logits_hash").get<std::string>().size(), 16u);
  const json second = bench();
  EXPECT_EQ(first.at("logits_hash"), second.at("logits_hash"));

  const json runs = run_json({"evals", "--json"});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].at("run"), second.at("run"));
  EXPECT_EQ(runs[0].at("kind"), "bench");
  ASSERT_EQ(runs[0].at("figures").size(), 6u);
  for (const json& figure : runs[0].at("figures")) {
    if (figure.at("metric") == "decode") {
      EXPECT_GT(figure.at("predicted_tps").get<double>(), 0);
    }
  }
  EXPECT_EQ(run_json({"evals", "--json", "--model", "no such"}).size(), 0u);

  const json change = run_json({"evals", "--compare", "1", "2", "--json"});
  EXPECT_EQ(change.at("figures").size(), 6u);
  EXPECT_TRUE(change.at("same_logits").get<bool>());

  EXPECT_EQ(run_program({"evals", "--plot", folder / "speed.svg"}).exit_code, 0);
  EXPECT_NE(testing::read_file(folder / "speed.svg").find("decode 20 x3"), std::string::npos);
  EXPECT_EQ(run_program({"evals", "--export", folder / "runs.json"}).exit_code, 0);
  EXPECT_EQ(json::parse(testing::read_file(folder / "runs.json")).size(), 2u);

  EXPECT_EQ(run_program({"evals", "--clear"}).exit_code, 0);
  EXPECT_EQ(run_json({"evals", "--json"}).size(), 0u);
}

TEST_F(CliBench, LeavesTheDatabaseAloneIfAsked) {
  const ProgramResult result =
      run_program({"bench", model, "--prefill", "4", "--ctx", "2", "--pairs", "1", "--steps", "1", "--passes",
                   "1", "--threads", "1", "--no-record"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out.find("recorded"), std::string::npos);
  EXPECT_EQ(run_json({"evals", "--json"}).size(), 0u);
}

TEST_F(CliBench, FitAddsUpAndFindsTheLargestContext) {
  const json report = run_json({"fit", model, "--ctx", "64", "--threads", "1", "--json"});
  EXPECT_TRUE(report.at("fits").get<bool>());
  EXPECT_EQ(report.at("total_bytes").get<int64_t>(), report.at("weights_bytes").get<int64_t>() +
                                                         report.at("kv_bytes").get<int64_t>() +
                                                         report.at("scratch_bytes").get<int64_t>());
  EXPECT_EQ(report.at("max_context"), report.at("model_ctx"));
  EXPECT_GT(report.at("predicted_decode_tps").get<double>(), 0);
  EXPECT_GT(report.at("predicted_first_token_seconds").get<double>(), 0);

  // Just enough for what 64 positions take: no more than the block that holds them.
  const double gigabytes = report.at("total_bytes").get<double>() * 1e-9 + 1e-6;
  const json tight = run_json(
      {"fit", model, "--ctx", "64", "--threads", "1", "--memory", std::to_string(gigabytes), "--json"});
  EXPECT_TRUE(tight.at("fits").get<bool>());
  EXPECT_GE(tight.at("max_context").get<int64_t>(), 64);
  EXPECT_LT(tight.at("max_context").get<int64_t>(), report.at("max_context").get<int64_t>());
}

TEST_F(CliBench, FitCountsQuantisedCaches) {
  const auto bytes = [&](const char* bits) {
    return run_json({"fit", "--shape", "llama3-8b", "--format", "mlx4", "--ctx", "8192", "--threads", "1",
                     "--memory", "100", "--kv-quant", bits, "--json"})
        .at("kv_bytes")
        .get<int64_t>();
  };
  constexpr int64_t kElements = int64_t{8192} * 32 * 2 * 8 * 128;
  EXPECT_EQ(bytes("off"), kElements * 2);
  EXPECT_EQ(bytes("8"), kElements + kElements / 64 * 4);  // a scale and a bias of two bytes for 64 elements
  EXPECT_EQ(bytes("4"), kElements / 2 + kElements / 64 * 4);
}

TEST_F(CliBench, FitRefusesWithTheNumbers) {
  const ProgramResult result = run_program({"fit", model, "--ctx", "64", "--memory", "0.001"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.out.find("does not fit"), std::string::npos);
  EXPECT_EQ(run_program({"fit"}).exit_code, 2);
  EXPECT_EQ(run_program({"fit", "--shape", "cpm5-1b"}).exit_code, 2);
  EXPECT_EQ(run_program({"bench", "/none/such"}).exit_code, 1);
}

TEST_F(CliBench, FitPredictsShapesWithoutAFile) {
  const json report = run_json({"fit", "--shape", "llama3-8b", "--format", "mlx4", "--ctx", "8192",
                                "--memory", "6", "--threads", "1", "--json"});
  EXPECT_NEAR(report.at("weights_bytes").get<double>(), 4.52e9,
              0.1e9);  // 4.22 GB streamed, and the embedding
  EXPECT_EQ(report.at("kv_bytes").get<int64_t>(), int64_t{8192} * 32 * 2 * 8 * 128 * 2);
  EXPECT_TRUE(report.at("fits").get<bool>());
}

}  // namespace
}  // namespace rafter::cli

// rafter doctor from outside.
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"

namespace rafter::cli {
namespace {

using testing::run_program;

TEST(CliDoctor, MeasuresAndReports) {
  const auto result = run_program({"doctor", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const auto report = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << result.out;
  EXPECT_GT(report.at("raw_read_gbps").get<double>(), 0);
  EXPECT_GT(report.at("peak_tops").get<double>(), 0);
  EXPECT_FALSE(report.at("findings").empty());
}

TEST(CliDoctor, QuickTextAndHelp) {
  const auto result = run_program({"doctor", "--quick"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_NE(result.out.find("huge pages"), std::string::npos) << result.out;
  EXPECT_NE(run_program({"help", "doctor"}).out.find("rafter doctor --quick"), std::string::npos);
}

}  // namespace
}  // namespace rafter::cli

#include "store/evaluations.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/svg_plot.h"
#include "tests/support/temp_folder.h"

namespace rafter::store {
namespace {

using testing::TempFolder;

EvaluationRun a_run(const std::string& model, int64_t started_at) {
  EvaluationRun run;
  run.started_at = started_at;
  run.kind = "bench";
  run.model = model;
  run.model_path = "/models/" + model;
  run.version = "0.1.0";
  run.commit = "0123456789ab";
  run.machine = "a processor, 2 threads, avx512";
  run.device = "cpu avx512, 2 threads";
  run.threads = 2;
  run.format = "q4g64";
  run.kv = "bf16";
  run.raw_read_gbps = 61.5;
  run.peak_tops = 0.81;
  run.load_ms = 12.5;
  run.first_token_ms = 40;
  run.peak_rss_bytes = 5'000'000'000;
  run.logits_hash = "00112233445566ff";
  run.busy = true;
  run.others_pct = 17;
  run.load_before = 3.5;
  run.note = "a; 'quoted' note";
  run.figures = {{"prefill", 512, 1, 1.5, 341.3, 0, 0, 62.5, 1.5, 0},
                 {"decode", 128, 4, 0.02, 200, 30, 81, 12, 2.5, 190}};
  return run;
}

TEST(Evaluations, KeepsEveryField) {
  const TempFolder folder;
  const std::string path = folder / "state/evals.sqlite";
  const EvaluationRun written = a_run("org/model", 1'700'000'000);
  int64_t id = 0;
  {
    Evaluations evaluations = std::move(Evaluations::open(path)).value();
    id = evaluations.add(written).value();
  }
  const EvaluationRun read = Evaluations::open(path).value().get(id).value();
  EXPECT_EQ(read.started_at, written.started_at);
  EXPECT_EQ(read.model, written.model);
  EXPECT_EQ(read.model_path, written.model_path);
  EXPECT_EQ(read.commit, written.commit);
  EXPECT_EQ(read.machine, written.machine);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.kv, "bf16");
  EXPECT_DOUBLE_EQ(read.raw_read_gbps, 61.5);
  EXPECT_DOUBLE_EQ(read.load_ms, 12.5);
  EXPECT_EQ(read.peak_rss_bytes, 5'000'000'000);
  EXPECT_EQ(read.logits_hash, written.logits_hash);
  EXPECT_TRUE(read.busy);
  EXPECT_DOUBLE_EQ(read.others_pct, 17);
  EXPECT_EQ(read.note, written.note);
  ASSERT_EQ(read.figures.size(), 2u);
  EXPECT_EQ(read.figures[1].metric, "decode");
  EXPECT_EQ(read.figures[1].tokens, 128);
  EXPECT_EQ(read.figures[1].rows, 4);
  EXPECT_DOUBLE_EQ(read.figures[1].roofline_pct, 81);
  EXPECT_DOUBLE_EQ(read.figures[1].predicted_tps, 190);
  EXPECT_DOUBLE_EQ(read.figures[0].compute_pct, 62.5);
}

TEST(Evaluations, ListsTheNewestFirstAndFilters) {
  const TempFolder folder;
  Evaluations evaluations = std::move(Evaluations::open(folder / "evals.sqlite")).value();
  for (int i = 0; i < 5; ++i) {
    EvaluationRun run = a_run(i % 2 == 0 ? "llama_8b" : "llamaX8b", 1000 + i);
    run.commit = i < 3 ? "aaaa00000000" : "bbbb00000000";
    ASSERT_TRUE(evaluations.add(run).ok());
  }
  const auto all = evaluations.list({}).value();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all.front().started_at, 1004);
  EXPECT_EQ(evaluations.list({"", "", "", "", 2}).value().size(), 2u);
  EXPECT_EQ(evaluations.list({"llama_", "", "", "", 0}).value().size(), 3u) << "'_' is no wildcard";
  EXPECT_EQ(evaluations.list({"", "bbbb", "", "", 0}).value().size(), 2u);
  EXPECT_EQ(evaluations.list({"", "", "another machine", "", 0}).value().size(), 0u);
  EXPECT_EQ(evaluations.list({"", "", "", "roofline", 0}).value().size(), 0u);
  EXPECT_EQ(evaluations.get(99).error().code, base::ErrorCode::not_found);
}

TEST(Evaluations, FilesOneProfileForEachMachineAndThreadCount) {
  const TempFolder folder;
  Evaluations evaluations = std::move(Evaluations::open(folder / "evals.sqlite")).value();
  EXPECT_FALSE(evaluations.profile_of("m", 2).value().has_value());
  ASSERT_TRUE(evaluations.put_profile({"m", 2, 100, 50, 0.8, false}).ok());
  ASSERT_TRUE(evaluations.put_profile({"m", 2, 200, 60, 0.9, true}).ok());
  ASSERT_TRUE(evaluations.put_profile({"m", 1, 300, 30, 0.4, false}).ok());
  const auto profile = evaluations.profile_of("m", 2).value();
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->measured_at, 200);
  EXPECT_DOUBLE_EQ(profile->raw_read_gbps, 60);
  EXPECT_TRUE(profile->busy);
}

TEST(Evaluations, TakesRunsFromSeveralProcesses) {
  const TempFolder folder;
  const std::string path = folder / "evals.sqlite";
  constexpr int kProcesses = 4, kRuns = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto evaluations = Evaluations::open(path);
      bool ok = evaluations.ok();
      for (int i = 0; ok && i < kRuns; ++i) ok = evaluations->add(a_run("m", i)).ok();
      ::_exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto runs = Evaluations::open(path).value().list({}).value();
  ASSERT_EQ(runs.size(), static_cast<size_t>(kProcesses * kRuns));
  for (const EvaluationRun& run : runs) EXPECT_EQ(run.figures.size(), 2u);
}

TEST(SvgPlot, EscapesNamesAndLeavesGaps) {
  const std::string svg = lab::svg_of(
      {{"<b>&\"title\"", "tok/s", {"one", "two"}, {{"a<b", {1, std::nan("")}}, {"c", {0.5, 2}}}, 0}});
  EXPECT_NE(svg.find("&lt;b&gt;&amp;&quot;title&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  size_t circles = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 3u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace rafter::store

// What the probes are made of: statistics, load detection, the raw read, and one measured step.
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/byte_account.h"
#include "lab/machine_load.h"
#include "lab/raw_read.h"
#include "lab/statistics.h"
#include "lab/step_probe.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::lab {
namespace {

using nlohmann::json;

TEST(Statistics, QuantilesAreTheNearestRanks) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(median_of(values), 3);
  EXPECT_EQ(quantile_of(values, 0), 1);
  EXPECT_EQ(quantile_of(values, 1), 5);
  EXPECT_EQ(quantile_of(values, 0.75), 4);
  EXPECT_EQ(quantile_of(values, 0.6), 3);
  EXPECT_EQ(median_of(std::vector<double>{7}), 7);
  EXPECT_EQ(median_of({}), 0);
  EXPECT_EQ(values, (std::vector<double>{5, 1, 4, 2, 3}));  // left as they were
}

TEST(Statistics, SpreadIsTheQuartilesDistance) {
  EXPECT_DOUBLE_EQ(spread_percent(std::vector<double>{10, 9, 11, 8, 12}), 20);
  EXPECT_EQ(spread_percent(std::vector<double>{4, 4, 4}), 0);
  EXPECT_EQ(spread_percent({}), 0);
  EXPECT_EQ(spread_percent(std::vector<double>{0, 0}), 0);
}

TEST(MachineLoad, OwnWorkIsNotOthers) {
  const MachineLoad load;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  volatile uint64_t work = 0;
  while (std::chrono::steady_clock::now() < end) work = work + 1;
  const MachineLoad::Report report = load.report();
  EXPECT_GE(report.load_before, 0);
  EXPECT_GE(report.others_percent, 0);
  EXPECT_LE(report.others_percent, 100);
  EXPECT_EQ(report.busy, report.others_percent > 5);
}

// The sum of 32-bit words modulo 2^32: what the readers' lanes come to, however many a tier has.
uint32_t plain_sum(const std::vector<uint32_t>& words) {
  return std::accumulate(words.begin(), words.end(), uint32_t{0});
}

class Aligned {
 public:
  explicit Aligned(int64_t bytes)
      : bytes_(bytes), memory_(device::HostMemory::reserve(size_t(bytes)).value()) {
    uint64_t value = 1;
    for (int64_t i = 0; i < bytes / 8; ++i) {
      value = value * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(memory_.data() + 8 * i, &value, 8);
    }
  }
  std::byte* data() { return memory_.data(); }
  std::vector<uint32_t> words() const {
    std::vector<uint32_t> all(static_cast<size_t>(bytes_ / 4));
    std::memcpy(all.data(), memory_.data(), static_cast<size_t>(bytes_));
    return all;
  }

 private:
  int64_t bytes_;
  device::HostMemory memory_;
};

class ReadersOf : public ::testing::TestWithParam<base::CpuTier> {};

TEST_P(ReadersOf, AgreeWithAPlainSum) {
  for (const int64_t granules : {1, 3, 8, 17}) {
    Aligned memory(granules * kernels::kReadGranule);
    const uint32_t sum = plain_sum(memory.words());
    for (const kernels::ReadProbe& reader : kernels::cpu_probes(GetParam()).readers) {
      EXPECT_EQ(static_cast<uint32_t>(reader.run(memory.data(), granules * kernels::kReadGranule)), sum)
          << reader.name;
    }
  }
}

// A byte that no reader loaded would change nothing.
TEST_P(ReadersOf, DependOnEveryByte) {
  constexpr int64_t kBytes = 3 * kernels::kReadGranule;
  Aligned memory(kBytes);
  for (const kernels::ReadProbe& reader : kernels::cpu_probes(GetParam()).readers) {
    const uint64_t before = reader.run(memory.data(), kBytes);
    int64_t ignored = 0;
    for (int64_t i = 0; i < kBytes; ++i) {
      memory.data()[i] ^= std::byte{0x40};
      ignored += reader.run(memory.data(), kBytes) == before ? 1 : 0;
      memory.data()[i] ^= std::byte{0x40};
    }
    EXPECT_EQ(ignored, 0) << reader.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, ReadersOf, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tested) { return base::cpu_tier_name(tested.param); });

TEST(RawRead, ReadsWhatItSays) {
  const base::CpuTier tier = base::select_tier().value();
  RawRead raw = RawRead::create(8 << 20, tier, 2).value();
  EXPECT_GT(raw.read_seconds(8 << 20), 0);
  // The 64-bit words are i · c.
  uint32_t sum = 0;
  for (uint64_t i = 0; i < (8 << 20) / 8; ++i) {
    const uint64_t word = i * 0x9E3779B97F4A7C15u;
    sum += static_cast<uint32_t>(word) + static_cast<uint32_t>(word >> 32);
  }
  EXPECT_EQ(static_cast<uint32_t>(raw.checksum()), sum);
  EXPECT_EQ(raw.bytes_read_by(8 << 20), 8 << 20);
  EXPECT_EQ(raw.bytes_read_by(1 << 30), 8 << 20);
  EXPECT_EQ(raw.bytes_read_by(1 << 20), 1 << 20);
  raw.choose_reader();
  EXPECT_STRNE(raw.reader(), "");
}

TEST(RawRead, RefusesMoreThanThereIs) {
  const auto raw = RawRead::create(int64_t{1} << 50, base::select_tier().value(), 1);
  ASSERT_FALSE(raw.ok());
  EXPECT_EQ(raw.error().code, base::ErrorCode::out_of_memory);
}

class StepProbe : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    path_ = new std::string(testing::write_synth_model("llama3-tiny", "mlx4", folder_->path()));
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete path_;
  }
  static std::unique_ptr<engine::Engine> open(int rows, engine::ExecutorKind executor) {
    engine::EngineOptions options;
    options.executor = executor;
    options.threads = 1;
    options.context_limit = 64;
    options.max_sequences = rows;
    auto checkpoint = std::make_shared<const format::Checkpoint>(format::Checkpoint::open(*path_).value());
    return engine::Engine::open(checkpoint, options).value();
  }
  static StepFigures measure(engine::Engine& engine, int64_t context, int rows) {
    StepProbeOptions options;
    options.context = context;
    options.rows = rows;
    options.pairs = 3;
    options.steps_per_pair = 5;
    auto figures = measure_step(engine, options);
    EXPECT_TRUE(figures.ok());
    return std::move(figures).value();
  }

  static inline testing::TempFolder* folder_;
  static inline std::string* path_;
};

TEST_F(StepProbe, BytesAreThePlansAndTheOps) {
  const int rows = 2;
  const int64_t context = 40;
  const auto engine = open(rows, engine::ExecutorKind::cpu);
  const StepFigures figures = measure(*engine, context, rows);
  const plan::Plan& plan = *engine->plan_for(rows).value();
  int64_t weights = 0, cache = 0, cache_of_one = 0, operations = 0, of_ops = 0;
  for (const plan::Op& op : plan.ops) {
    const kernels::Cost cost = plan::op_cost(plan, op, rows, rows, context + 1);
    weights += cost.weight_bytes, cache += cost.cache_bytes, operations += cost.operations;
    cache_of_one += plan::op_cost(plan, op, 1, 1, context + 1).cache_bytes;
  }
  for (const OpFigure& op : figures.ops) of_ops += op.bytes;
  EXPECT_EQ(figures.weight_bytes, weights);
  EXPECT_EQ(figures.kv_bytes, cache);
  EXPECT_EQ(cache, rows * cache_of_one);  // a sequence each
  EXPECT_EQ(figures.operations, operations);
  EXPECT_EQ(figures.bytes_per_token, weights + cache);
  EXPECT_EQ(of_ops, figures.bytes_per_token);
  EXPECT_DOUBLE_EQ(figures.ceiling_tps * static_cast<double>(figures.bytes_per_token),
                   rows * figures.raw_read_gbps * 1e9);
  EXPECT_NEAR(figures.tps, rows * 1e3 / figures.step_ms, 1e-6 * figures.tps);
  EXPECT_GT(figures.roofline_pct, 0);
}

// The profiled steps are not the timed ones, so another program's work tells between them: then the machine
// is busy, and only the parts' own sum can be checked. The reference's steps are long enough for the clocks
// themselves to weigh nothing.
TEST_F(StepProbe, TheOpsAddUpToTheStep) {
  const auto engine = open(1, engine::ExecutorKind::reference);
  bool busy = false;
  double distance = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const StepFigures figures = measure(*engine, 8, 1);
    double microseconds = 0, shares = 0;
    for (const OpFigure& op : figures.ops) microseconds += op.us, shares += op.share;
    EXPECT_NEAR(shares, 1, 0.02);
    distance = std::abs(microseconds * 1e-3 / figures.step_ms - 1);
    busy = figures.load.busy;
    if (distance <= 0.02) return;
  }
  if (busy) GTEST_SKIP() << "other programs take the cores: the steps differ by " << 100 * distance << " %";
  EXPECT_LE(distance, 0.02);
}

TEST_F(StepProbe, TheTraceIsJson) {
  const auto engine = open(1, engine::ExecutorKind::cpu);
  const StepFigures figures = measure(*engine, 0, 1);
  const json trace = json::parse(trace_of(figures), nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  std::map<std::string, int> names;
  for (const json& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GT(event.at("dur").get<double>(), 0);
    ++names[event.at("name").get<std::string>()];
  }
  for (const std::string& op : figures.op_names) EXPECT_GT(names[op], 0) << op;
}

}  // namespace
}  // namespace rafter::lab

// Every oracle checkpoint, teacher-forced: the prompt in one step, then 64 steps of one row.
//
//   --precise     max |Δlogit| ≤ 1e-3 · max |logit| against the fp32 truth
//   default       max |Δlogit| and mean KL at most twice those of the bf16 witness
//   mixtures      rows whose router margin is below 1e-4 are counted apart
//   cuda          the default bounds, where there is a GPU; what its back end refuses is counted
//   both          the greedy choice is the truth's wherever the truth's margin exceeds the bound
//
// The best processor tier's default mode prints a table of families by formats: KL beside the witness's.
#include <cmath>

#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "device/gpu.h"
#include "tests/models/engine_fixture.h"
#include "tests/models/family_table.h"

namespace rafter::testing {
namespace {

using engine::EngineOptions;
using engine::ExecutorKind;

struct Mode {
  const char* name;
  const char* tier;  // null: the reference executor
  bool precise;
  bool on_gpu = false;
};

class LogitsTest : public ::testing::TestWithParam<Mode> {};

// Whether the back end takes the model at all.
bool opens(const std::string& path, const EngineOptions& options) {
  auto checkpoint = format::Checkpoint::open(path);
  RAFTER_CHECK(checkpoint.ok(), "{}", checkpoint.error().message());
  auto opened =
      engine::Engine::open(std::make_shared<const format::Checkpoint>(*std::move(checkpoint)), options);
  EXPECT_TRUE(opened.ok() || opened.error().code == base::ErrorCode::unsupported) << opened.error().message();
  return opened.ok();
}

std::vector<float> teacher_forced_logits(const OracleCase& oracle_case, const OracleValues& values,
                                         const Mode& mode) {
  EngineOptions options;
  options.executor = mode.on_gpu            ? ExecutorKind::cuda
                     : mode.tier == nullptr ? ExecutorKind::reference
                                            : ExecutorKind::cpu;
  if (mode.on_gpu) {
    options.kv_quantization = engine::KvQuantization::off;
    options.cache_bytes = int64_t{256} << 20;
  }
  options.precise = mode.precise;
  options.threads = 1;  // too small to share
  options.max_sequences = 1;
  options.row_capacity = 64;
  if (mode.on_gpu && !opens(oracle_case.path, options)) return {};
  auto engine = open_engine(oracle_case.path, options);
  const int32_t sequence = engine->create_sequence().value();
  std::vector<float> logits;
  const auto total = static_cast<int64_t>(values.tokens.size());
  feed(*engine, sequence, values.tokens, 0, values.prompt_length, values.prompt_length, &logits);
  feed(*engine, sequence, values.tokens, values.prompt_length, total, 1, &logits);
  return logits;
}

TEST_P(LogitsTest, EveryCheckpointIsWithinItsBound) {
  if (oracle_cases().empty())
    GTEST_SKIP() << "no oracle data in " << oracle_folder() << ": run oracle/generate.py";
  const Mode mode = GetParam();
  if (mode.tier != nullptr) {
    bool supported = false;
    for (base::CpuTier tier : base::supported_tiers())
      supported |= std::string(base::cpu_tier_name(tier)) == mode.tier;
    if (!supported) GTEST_SKIP() << "this machine has no " << mode.tier;
  }
  if (mode.on_gpu) {
    if (auto gpu = device::use_gpu(0); !gpu.ok()) GTEST_SKIP() << gpu.error().what;
  }
  ForcedTier forced(mode.tier != nullptr ? mode.tier : "");
  double worst_delta = 0, worst_kl = 0;
  int64_t router_ties = 0;  // counted apart
  int refused = 0;
  FamilyTable table;
  for (const OracleCase& oracle_case : oracle_cases()) {
    SCOPED_TRACE(oracle_case.name);
    const OracleValues values = read_values(oracle_case);
    const std::vector<float> logits = teacher_forced_logits(oracle_case, values, mode);
    if (logits.empty()) {
      ++refused;
      continue;
    }
    const auto total = static_cast<int64_t>(values.tokens.size());
    ASSERT_EQ(static_cast<int64_t>(logits.size()), total * values.vocabulary);

    LogitError witness;
    for (int64_t t = 0; t < total; ++t) witness.add_row(values.truth_row(t), values.witness_row(t), 0);
    const double bound = mode.precise ? 1e-3 * witness.max_logit : 2 * witness.max_delta;
    LogitError ours;
    for (int64_t t = 0; t < total; ++t) {
      router_ties += values.is_router_tie(t);
      if (values.is_router_tie(t)) continue;
      ours.add_row(values.truth_row(t), {logits.data() + t * values.vocabulary, size_t(values.vocabulary)},
                   bound);
    }
    EXPECT_EQ(ours.fault(bound, mode.precise ? INFINITY : 2 * witness.mean_kl()), "");
    table.add(oracle_case, ours, witness);
    if (!mode.precise) {
      worst_kl = std::max(worst_kl, ours.mean_kl() / witness.mean_kl());
    }
    worst_delta =
        std::max(worst_delta, ours.max_delta / (mode.precise ? witness.max_logit : witness.max_delta));
  }
  RecordProperty("worst_delta", std::to_string(worst_delta));
  std::printf(
      "%s: %zu checkpoints, worst max|delta| %.3g of %s, worst mean KL %.3g of the witness's, %lld rows "
      "apart "
      "whose router margin is below 1e-4\n",
      mode.name, oracle_cases().size() - static_cast<size_t>(refused), worst_delta,
      mode.precise ? "max|logit|" : "the witness's", worst_kl, static_cast<long long>(router_ties));
  if (mode.on_gpu) return;
  const std::string best(base::cpu_tier_name(base::supported_tiers().back()));
  if (mode.precise || mode.tier != best) return;
  table.print();
  table.record("cpu " + best);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, LogitsTest,
    ::testing::Values(Mode{"reference_precise", nullptr, true}, Mode{"portable_precise", "portable", true},
                      Mode{"portable_default", "portable", false}, Mode{"avx2_precise", "avx2", true},
                      Mode{"avx2_default", "avx2", false}, Mode{"avx512_precise", "avx512", true},
                      Mode{"avx512_default", "avx512", false}, Mode{"cuda_default", nullptr, false, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace rafter::testing

// The emitter, for training's sake: one layer emitted alone for 37 rows, without a cache, unfused, equals
// transformers' layer; and the same plan run fused, and over the cache, gives the same.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/exec_host.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "plan/fuse.h"
#include "tests/models/engine_fixture.h"

namespace rafter::testing {
namespace {

struct LayerRun {
  const kernels::KernelTable& table;
  bool use_cache = false, fuse = false;
};

// Layer 0 over the oracle's prompt rows; returns its output [rows, D].
std::vector<float> run_layer(const OracleCase& oracle_case, const OracleValues& values, const LayerRun& run) {
  const format::Checkpoint checkpoint = format::Checkpoint::open(oracle_case.path).value();
  const std::shared_ptr<const model::Model> model = model::load_model(checkpoint).value();
  const auto rows = static_cast<int32_t>(values.prompt_length);

  std::vector<cache::LayerShape> shapes;
  for (const model::CacheLayer& layer : model->cache_layers())
    shapes.push_back({layer.kv_heads, layer.head_dim, layer.window});
  cache::KvCacheOptions cache_options{tensor::DType::f32, 1, 256, 64, 1 << 28};
  cache::KvCache cache = cache::KvCache::create(shapes, cache_options).value();
  const int32_t sequence = cache.create_sequence().value();
  EXPECT_TRUE(cache.extend(sequence, rows).ok());
  base::WorkerTeam team(2);
  cache::RecurrentStore states = cache::RecurrentStore::create(model->state_layers(), 1, 0).value();
  engine::HostExecutor executor(run.table, team, cache, &states);

  plan::EmitOptions options;
  options.capacity = 64;
  options.precision = kernels::MatmulPrecision::fp32_inputs;
  options.use_cache = run.use_cache;
  options.taps = {"layer.0.hidden"};
  plan::Emitter emitter(options);
  const plan::Value x = emitter.input("x", model->info().width);
  model->emit_layer(emitter, 0, x);
  plan::Plan plan = std::move(emitter).take();
  if (run.fuse) plan::fuse(plan);

  std::vector<int32_t> positions(rows), zeros(rows, 0), visible_to(rows);
  for (int32_t i = 0; i < rows; ++i) positions[i] = i, visible_to[i] = i + 1;
  kernels::StepInput input;
  input.rows = rows;
  input.positions = positions.data();
  input.sequences = input.visible_from = zeros.data();
  input.visible_to = visible_to.data();
  input.tokens = values.tokens.data();
  input.block_tables = cache.tables();
  input.block_table_stride = cache.stride();
  input.block_table_kind_stride = cache.kind_stride();

  std::vector<int32_t> indices(rows);
  for (int32_t i = 0; i < rows; ++i) indices[i] = i;
  kernels::RecurrentRun all;
  if (!states.empty()) all = states.begin(0, 0, rows);
  const kernels::RecurrentInput recurrent = {1, &all, indices.data()};
  input.recurrent = &recurrent;

  auto bound = executor.bind(std::move(plan), &input, 256).value();
  std::memcpy(bound->data(bound->plan().taps.at("x")), values.hidden_in.data(),
              values.hidden_in.size() * sizeof(float));
  EXPECT_TRUE(executor.run_blocking(*bound).ok());
  const float* out = bound->data(bound->plan().taps.at("layer.0.hidden"));
  return std::vector<float>(out, out + values.hidden_out.size());
}

double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return INFINITY;
    error = std::max(error, std::abs(static_cast<double>(expected[i]) - actual[i]));
    norm = std::max(norm, std::abs(static_cast<double>(expected[i])));
  }
  return error / norm;
}

TEST(LayerTest, OneLayerWithoutCacheEqualsTransformers) {
  if (oracle_cases().empty())
    GTEST_SKIP() << "no oracle data in " << oracle_folder() << ": run oracle/generate.py";
  const kernels::KernelTable& cpu = kernels::cpu_kernels(base::supported_tiers().back());
  double worst = 0;
  for (const OracleCase& oracle_case : oracle_cases()) {
    SCOPED_TRACE(oracle_case.name);
    const OracleValues values = read_values(oracle_case);
    ASSERT_EQ(values.prompt_length, 37);
    const std::vector<float> unfused = run_layer(oracle_case, values, {cpu});
    const double error = relative_error(values.hidden_out, unfused);
    EXPECT_LE(error, 1e-4);
    EXPECT_LE(
        relative_error(values.hidden_out, run_layer(oracle_case, values, {kernels::reference_kernels()})),
        1e-5);
    worst = std::max(worst, error);
    const std::vector<float> fused = run_layer(oracle_case, values, {cpu, false, true});
    EXPECT_EQ(std::memcmp(fused.data(), unfused.data(), fused.size() * sizeof(float)), 0) << "fused differs";
    // Over an fp32 cache the order of the splits is the cache's; the values are the same to rounding.
    EXPECT_LE(relative_error(values.hidden_out, run_layer(oracle_case, values, {cpu, true, true})), 1e-4);
  }
  std::printf("worst relative error of a layer: %.3g\n", worst);
}

// A wrong sign in the layer must not pass: the oracle's own input fed as its output's negative fails the
// comparison.
TEST(LayerTest, TheComparisonSeesAWrongLayer) {
  if (oracle_cases().empty())
    GTEST_SKIP() << "no oracle data in " << oracle_folder() << ": run oracle/generate.py";
  OracleValues values = read_values(oracle_cases()[0]);
  const kernels::KernelTable& cpu = kernels::cpu_kernels(base::supported_tiers().back());
  const std::vector<float> right = run_layer(oracle_cases()[0], values, {cpu});
  std::swap(values.hidden_in[0], values.hidden_in[1]);
  EXPECT_GT(relative_error(values.hidden_out, run_layer(oracle_cases()[0], values, {cpu})), 1e-3);
  EXPECT_LE(relative_error(values.hidden_out, right), 1e-4);
}

}  // namespace
}  // namespace rafter::testing

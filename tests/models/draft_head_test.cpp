// Qwen3.5's multi-token-prediction head: emitted alone, over the states that the model ended at, it gives
// what oracle/qwen3_5_draft.py puts together from transformers' parts.
#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/byte_account.h"
#include "engine/exec_host.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "plan/fuse.h"
#include "tests/models/engine_fixture.h"
#include "tests/models/tensor_file.h"

namespace rafter::testing {
namespace {

// Beside the folder of the other checkpoints.
std::string draft_folder() { return oracle_folder() + "/../draft"; }

struct DraftValues {
  std::vector<int32_t> tokens;
  std::vector<float> hidden, logits;
  int64_t width = 0, vocabulary = 0;

  explicit DraftValues(const std::string& name) {
    const TensorFile file(draft_folder() + "/" + name + ".safetensors");
    tokens = file.read<int32_t>("tokens");
    hidden = file.read<float>("hidden", &width);
    logits = file.read<float>("logits", &vocabulary);
  }
  int32_t rows() const { return static_cast<int32_t>(tokens.size()) - 1; }
};

// The head over all rows, in steps of at most `chunk`; their logits.
std::vector<float> run_head(const model::Model& model, const DraftValues& values, int32_t chunk,
                            const kernels::KernelTable& table, bool fuse) {
  std::vector<cache::LayerShape> shapes;
  for (const auto& layers : {model.cache_layers(), model.draft_cache_layers()}) {
    for (const model::CacheLayer& layer : layers)
      shapes.push_back({layer.kv_heads, layer.head_dim, layer.window});
  }
  cache::KvCache cache = cache::KvCache::create(shapes, {tensor::DType::f32, 1, 256, 128, 1 << 28}).value();
  const int32_t sequence = cache.create_sequence().value();
  base::WorkerTeam team(2);
  engine::HostExecutor executor(table, team, cache, nullptr);

  plan::EmitOptions options;
  options.capacity = 128;
  options.precision = kernels::MatmulPrecision::fp32_inputs;
  plan::Emitter emitter(options);
  model.emit_draft(emitter);
  plan::Plan plan = std::move(emitter).take();
  if (fuse) plan::fuse(plan);

  kernels::StepInput input;
  input.block_tables = cache.tables();
  input.block_table_stride = cache.stride();
  input.block_table_kind_stride = cache.kind_stride();
  auto bound = executor.bind(std::move(plan), &input, 256).value();
  std::vector<float> logits;
  for (int32_t begin = 0; begin < values.rows(); begin += chunk) {
    const int32_t rows = std::min(chunk, values.rows() - begin);
    EXPECT_TRUE(cache.extend(sequence, rows).ok());
    std::vector<int32_t> positions, visible_to, wanted, zeros(static_cast<size_t>(rows), 0);
    for (int32_t i = 0; i < rows; ++i) {
      positions.push_back(begin + i);
      visible_to.push_back(begin + i + 1);
      wanted.push_back(i);
    }
    input.rows = input.wanted_rows = rows;
    input.tokens = values.tokens.data() + begin + 1;  // the tokens that follow
    input.positions = positions.data();
    input.sequences = input.visible_from = zeros.data();
    input.visible_to = visible_to.data();
    input.wanted = wanted.data();
    std::memcpy(bound->data(bound->plan().taps.at("hidden")), values.hidden.data() + begin * values.width,
                static_cast<size_t>(rows * values.width) * sizeof(float));
    EXPECT_TRUE(executor.run_blocking(*bound).ok());
    const float* out = bound->data(bound->plan().logits);
    logits.insert(logits.end(), out, out + rows * values.vocabulary);
  }
  return logits;
}

double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return INFINITY;
  double error = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return INFINITY;
    error = std::max(error, std::abs(static_cast<double>(expected[i]) - actual[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return error / largest;
}

class DraftHead : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(draft_folder() + "/" + GetParam() + ".safetensors"))
      GTEST_SKIP() << "no " << draft_folder() << ": run oracle/qwen3_5_draft.py";
  }
};

TEST_P(DraftHead, GivesTheFormulasLogits) {
  const auto checkpoint = format::Checkpoint::open(draft_folder() + "/" + GetParam()).value();
  const auto model = model::load_model(checkpoint).value();
  ASSERT_TRUE(model->draft_head().ok()) << model->draft_head().error().message();
  const DraftValues values(GetParam());
  const kernels::KernelTable& cpu = kernels::cpu_kernels(base::supported_tiers().back());
  EXPECT_LE(relative_error(values.logits, run_head(*model, values, 128, kernels::reference_kernels(), false)),
            1e-5);
  const std::vector<float> whole = run_head(*model, values, 128, cpu, true);
  EXPECT_LE(relative_error(values.logits, whole), 1e-4);
  // In steps, over its own cache, the same bits.
  EXPECT_EQ(whole, run_head(*model, values, 1, cpu, true));
  EXPECT_EQ(whole, run_head(*model, values, 7, cpu, false));

  // A state of another position, a wrong token: the comparison sees them.
  DraftValues wrong = values;
  std::rotate(wrong.hidden.begin(), wrong.hidden.begin() + values.width, wrong.hidden.end());
  EXPECT_GT(relative_error(values.logits, run_head(*model, wrong, 128, cpu, true)), 1e-2);
  wrong = values;
  std::rotate(wrong.tokens.begin(), wrong.tokens.begin() + 1, wrong.tokens.end());
  EXPECT_GT(relative_error(values.logits, run_head(*model, wrong, 128, cpu, true)), 1e-2);
}

// The model's own steps do not read the head: its bytes are unused, all of them, and nothing else is.
TEST_P(DraftHead, CountsAsUnused) {
  const auto checkpoint = format::Checkpoint::open(draft_folder() + "/" + GetParam()).value();
  const auto model = model::load_model(checkpoint).value();
  int64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors())
    if (name.starts_with("mtp.")) bytes += tensor.bytes;
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(engine::account_bytes(checkpoint, *model).unused_bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DraftHead, ::testing::Values("dense", "mixture"));

// A head of which parts are missing or misshapen is no reason to refuse the model; a model may have none.
TEST(DraftHeads, SayWhatIsWrongWithThem) {
  const OracleCase* broken = find_oracle_case("qwen3_5-wrapped/hf-bf16");
  const OracleCase* without = find_oracle_case("qwen3_5-tiny/hf-bf16");
  const OracleCase* other = find_oracle_case("qwen3-tiny/hf-bf16");
  if (broken == nullptr || without == nullptr || other == nullptr) GTEST_SKIP() << "no oracle data";
  for (const auto& [oracle_case, part] :
       {std::pair{broken, "mtp.fc"}, std::pair{without, "no multi-token-prediction head"},
        std::pair{other, "family"}}) {
    const auto checkpoint = format::Checkpoint::open(oracle_case->path).value();
    const auto model = model::load_model(checkpoint).value();
    ASSERT_FALSE(model->draft_head().ok());
    EXPECT_NE(model->draft_head().error().message().find(part), std::string::npos)
        << model->draft_head().error().message();
    EXPECT_TRUE(model->draft_cache_layers().empty());
  }
}

}  // namespace
}  // namespace rafter::testing

// A mixture's weights from every layout that checkpoints use: the same experts, whatever the file.
#include <random>

#include <gtest/gtest.h>

#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "model/weights.h"
#include "tensor/codec.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

using tensor::DType;
using tensor::EncodedMatrix;
using tensor::NumberFormat;

constexpr int64_t kExperts = 3, kHidden = 32, kWidth = 64;
const model::ExpertNames kNames = {"m.stack.gate_proj", "m.stack.up_proj",         "m.stack.down_proj",
                                   "m.x.gate_up_proj",  "m.x.gate_up_down_unused", "m.x"};

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// All experts of one role, one below the other.
struct Role {
  int64_t rows, columns;
  EncodedMatrix all;
  Role(const NumberFormat& format, int64_t role_rows, int64_t role_columns, uint32_t seed)
      : rows(role_rows),
        columns(role_columns),
        all(encode_matrix(format, kExperts * rows, columns,
                          random_floats(static_cast<size_t>(kExperts * rows * columns), seed))) {}
  tensor::MatrixView expert(int64_t e) const { return all.view().row_range(e * rows, rows); }
};

struct Roles {
  Role gate, up, down;
  explicit Roles(const NumberFormat& format)
      : gate(format, kHidden, kWidth, 1), up(format, kHidden, kWidth, 2), down(format, kWidth, kHidden, 3) {}
};

std::vector<float> decoded(const tensor::MatrixView& view) {
  std::vector<float> values(static_cast<size_t>(view.rows * view.columns));
  for (int64_t r = 0; r < view.rows; ++r) {
    decode_row(
        view, r,
        std::span(values).subspan(static_cast<size_t>(r * view.columns), static_cast<size_t>(view.columns)));
  }
  return values;
}

void expect_same(const std::vector<tensor::MatrixView>& actual, const Role& expected, const char* role) {
  ASSERT_EQ(actual.size(), static_cast<size_t>(kExperts)) << role;
  for (int64_t e = 0; e < kExperts; ++e) {
    EXPECT_EQ(decoded(actual[static_cast<size_t>(e)]), decoded(expected.expert(e))) << role << " " << e;
  }
}

void expect_experts(const std::string& path, const model::ExpertNames& names, const Roles& roles) {
  auto checkpoint = format::Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  model::Weights weights(*checkpoint);
  auto experts = weights.experts(names, kExperts, kHidden, kWidth);
  ASSERT_TRUE(experts.ok()) << experts.error().message();
  expect_same(experts->gate, roles.gate, "gate");
  expect_same(experts->up, roles.up, "up");
  expect_same(experts->down, roles.down, "down");
  EXPECT_TRUE(weights.check_all_used().ok());
  EXPECT_EQ(weights.parameters(), kExperts * 3 * kHidden * kWidth);
}

struct Part {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

void write_folder(const TempFolder& folder, const std::string& config, const std::vector<Part>& parts) {
  folder.write("config.json", config);
  format::SafetensorsWriter writer(folder / "model.safetensors");
  for (const Part& part : parts) ASSERT_TRUE(writer.declare(part.name, part.type, part.shape).ok());
  ASSERT_TRUE(writer.begin().ok());
  for (const Part& part : parts) ASSERT_TRUE(writer.append(part.name, part.bytes).ok());
  ASSERT_TRUE(writer.finish_blocking().ok());
}

const NumberFormat kBf16 = NumberFormat::plain(DType::bf16);

TEST(ExpertWeights, OneMatrixPerExpert) {
  const Roles roles(kBf16);
  std::vector<Part> parts;
  for (const auto& [name, role] :
       {std::pair{"gate_proj", &roles.gate}, {"up_proj", &roles.up}, {"down_proj", &roles.down}}) {
    for (int64_t e = 0; e < kExperts; ++e) {
      const tensor::MatrixView view = role->expert(e);
      parts.push_back({fmt::format("m.x.{}.{}.weight", e, name),
                       DType::bf16,
                       {view.rows, view.columns},
                       {view.data, view.data + view.bytes()}});
    }
  }
  const TempFolder folder;
  write_folder(folder, R"({"model_type":"m"})", parts);
  expect_experts(folder.path(), kNames, roles);
}

TEST(ExpertWeights, GateAndUpInOneTensorWithoutASuffix) {
  const Roles roles(kBf16);
  Part both{"m.x.gate_up_proj", DType::bf16, {kExperts, 2 * kHidden, kWidth}, {}};
  for (int64_t e = 0; e < kExperts; ++e) {
    for (const Role* role : {&roles.gate, &roles.up}) {
      const tensor::MatrixView view = role->expert(e);
      both.bytes.insert(both.bytes.end(), view.data, view.data + view.bytes());
    }
  }
  const TempFolder folder;
  write_folder(folder, R"({"model_type":"m"})",
               {both, {"m.x.down_proj", DType::bf16, {kExperts, kWidth, kHidden}, roles.down.all.data}});
  model::ExpertNames names = kNames;
  names.gate_up_down = "m.x.down_proj";
  expect_experts(folder.path(), names, roles);
}

TEST(ExpertWeights, StackedMlxTriples) {
  const Roles roles(NumberFormat::affine(4, 32, DType::bf16));
  std::vector<Part> parts;
  for (const auto& [name, role] :
       {std::pair{"gate_proj", &roles.gate}, {"up_proj", &roles.up}, {"down_proj", &roles.down}}) {
    const std::string module = fmt::format("m.stack.{}", name);
    parts.push_back(
        {module + ".weight", DType::u32, {kExperts, role->rows, role->columns / 8}, role->all.data});
    const std::vector<int64_t> groups = {kExperts, role->rows, role->columns / 32};
    parts.push_back({module + ".scales", DType::bf16, groups, role->all.scales});
    parts.push_back({module + ".biases", DType::bf16, groups, role->all.biases});
  }
  const TempFolder folder;
  write_folder(folder, R"({"model_type":"m","quantization":{"bits":4,"group_size":32}})", parts);
  expect_experts(folder.path(), kNames, roles);

  auto checkpoint = format::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_FALSE(checkpoint->matrices("m.stack.gate_proj", kExperts + 1, kHidden, kWidth).ok());
  EXPECT_FALSE(checkpoint->matrices("m.stack.gate_proj", 0, kHidden, kWidth).ok());
  EXPECT_FALSE(checkpoint->matrices("m.stack.gate_proj", int64_t{1} << 40, kHidden, kWidth).ok());
  EXPECT_FALSE(checkpoint->matrix("m.stack.gate_proj", kExperts * kHidden, kWidth).ok());
}

TEST(ExpertWeights, GgufTensorsOfThreeDimensions) {
  const NumberFormat q8 = NumberFormat::block(tensor::FormatKind::q8_0);
  const Roles roles(q8);
  const TempFolder folder;
  const std::string path = folder / "m.gguf";
  format::GgufWriter writer(path);
  writer.set_string("general.architecture", "m");
  const std::pair<std::string, const Role*> tensors[] = {{"blk.0.ffn_gate_exps.weight", &roles.gate},
                                                         {"blk.0.ffn_up_exps.weight", &roles.up},
                                                         {"blk.0.ffn_down_exps.weight", &roles.down}};
  for (const auto& [name, role] : tensors) {
    ASSERT_TRUE(writer.declare(name, q8, {kExperts, role->rows, role->columns}).ok());
  }
  ASSERT_TRUE(writer.begin().ok());
  for (const auto& [name, role] : tensors) ASSERT_TRUE(writer.append(name, role->all.data).ok());
  ASSERT_TRUE(writer.finish_blocking().ok());
  expect_experts(path, {"blk.0.ffn_gate_exps", "blk.0.ffn_up_exps", "blk.0.ffn_down_exps", "", "", ""},
                 roles);
}

TEST(ExpertWeights, AMissingOrOddExpertIsAnError) {
  const Roles bf16(kBf16), f32(NumberFormat::plain(DType::f32));
  std::vector<Part> parts;
  for (int64_t e = 0; e < kExperts; ++e) {
    const tensor::MatrixView view = (e == 1 ? f32 : bf16).gate.expert(e);
    parts.push_back({fmt::format("m.x.{}.gate_proj.weight", e),
                     e == 1 ? DType::f32 : DType::bf16,
                     {view.rows, view.columns},
                     {view.data, view.data + view.bytes()}});
  }
  const TempFolder folder;
  write_folder(folder, R"({"model_type":"m"})", parts);
  auto checkpoint = format::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  auto experts = model::Weights(*checkpoint).experts(kNames, kExperts, kHidden, kWidth);
  ASSERT_FALSE(experts.ok());
  EXPECT_NE(experts.error().message().find("m.x.1.gate_proj"), std::string::npos)
      << experts.error().message();
  experts = model::Weights(*checkpoint).experts(kNames, 1, kHidden, kWidth);
  ASSERT_FALSE(experts.ok());
  EXPECT_EQ(experts.error().code, base::ErrorCode::not_found);
}

TEST(Weights, PartsOfOneMatrix) {
  const Role role(NumberFormat::affine(4, 32, DType::f16), 40, kWidth, 5);  // 120 rows in all
  const TempFolder folder;
  write_folder(folder, R"({"model_type":"m","quantization":{"bits":4,"group_size":32}})",
               {{"qkv.weight", DType::u32, {120, kWidth / 8}, role.all.data},
                {"qkv.scales", DType::f16, {120, kWidth / 32}, role.all.scales},
                {"qkv.biases", DType::f16, {120, kWidth / 32}, role.all.biases}});
  auto checkpoint = format::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  const int64_t rows[] = {80, 24, 16};
  auto parts = model::Weights(*checkpoint).linears("qkv", rows, kWidth);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  int64_t first = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded((*parts)[i].weight), decoded(role.all.view().row_range(first, rows[i])));
    first += rows[i];
  }
  EXPECT_FALSE(model::Weights(*checkpoint).linears("qkv", std::span(rows).first(2), kWidth).ok());
}

}  // namespace
}  // namespace rafter::testing

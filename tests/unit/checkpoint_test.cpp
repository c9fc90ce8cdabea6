#include "format/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "format/gguf_types.h"
#include "format/strict_json.h"
#include "tests/support/format_files.h"
#include "tests/support/temp_folder.h"

namespace rafter::format {
namespace {

using testing::GgufParts;
using testing::packed;
using testing::safetensors_file;
using testing::TempFolder;

const std::string kFixtures = RAFTER_SOURCE_DIR "/tests/fixtures/format/";

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

std::string refusal(const std::string& path) {
  const auto result = Checkpoint::open(path);
  return result.ok() ? "" : result.error().message();
}

// A safetensors file of one U8 tensor of one byte.
std::string one_byte_tensor(const std::string& name) {
  return safetensors_file("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
}

class Peers : public ::testing::TestWithParam<const char*> {};

TEST_P(Peers, FilesOfOtherProgramsHoldTheSameValues) {
  const std::string folder = kFixtures + GetParam();
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  EXPECT_EQ(testing::difference_from_expected(*checkpoint, folder + "/expected"), "");
  EXPECT_EQ(testing::views_fault(checkpoint->tensors(), checkpoint->files()), "");
  EXPECT_TRUE(checkpoint->check_not_truncated().ok());
  EXPECT_GT(checkpoint->file_bytes(), 0);
  checkpoint->populate_blocking(std::atomic<bool>{false});
}

INSTANTIATE_TEST_SUITE_P(Formats, Peers, ::testing::Values("hf", "mlx", "gguf"));

TEST(Checkpoint, MlxTensorsMayStartAnywhere) {
  const auto checkpoint = Checkpoint::open(kFixtures + "mlx");
  ASSERT_TRUE(checkpoint.ok());
  bool odd = false;
  for (const auto& [name, tensor] : checkpoint->tensors())
    odd = odd || reinterpret_cast<uintptr_t>(tensor.data) % 2 == 1;
  EXPECT_TRUE(odd) << "the fixture no longer tests unaligned tensors";
  EXPECT_EQ(checkpoint->matrix("model.a", 3, 128)->format.name(), "q4g64");
  EXPECT_EQ(checkpoint->matrix("model.b", 3, 128)->format.name(), "q8g32");
  EXPECT_EQ(checkpoint->matrix("model.plain", 3, 32)->format.name(), "bf16");
}

TEST(Checkpoint, MatrixNamesExpectedAndActualShape) {
  const auto mlx = Checkpoint::open(kFixtures + "mlx");
  ASSERT_TRUE(mlx.ok());
  EXPECT_EQ(mlx->matrix("model.plain", 4, 32).error().message(),
            "model.safetensors: model.plain.weight: its shape is [3, 32] where the model needs [4, 32] "
            "(config and weights "
            "do not belong together, or the file is damaged)");
  EXPECT_CONTAINS(mlx->matrix("model.a", 3, 192).error().message(), "[3, 16] where the model needs [3, 24]");
  EXPECT_CONTAINS(mlx->matrix("model.a", 3, 100).error().message(), "multiple of the quantization group 64");
  EXPECT_EQ(mlx->matrix("model.c", 3, 128).error().code, base::ErrorCode::not_found);
  EXPECT_EQ(mlx->vector("model.c", 3).error().code, base::ErrorCode::not_found);
  EXPECT_CONTAINS(mlx->vector("model.norm.weight", 32).error().message(), "[33] where the model needs [32]");
  EXPECT_CONTAINS(mlx->vector("model.plain.weight", 96).error().message(),
                  "[3, 32] where the model needs [96]");
  EXPECT_FALSE(mlx->matrix("model.plain", 0, 32).ok());
  EXPECT_FALSE(mlx->matrix("model.plain", int64_t{1} << 62, 32).ok());
}

TEST(Checkpoint, KnownBySizeOnlyTypesAreRefusedByName) {
  TempFolder folder;
  GgufParts parts;
  parts.tensors = {GgufParts::tensor("blk.0.x.weight", {256, 2}, 15, 0)};
  parts.data.assign(2 * 292, 'x');
  const auto gguf = Checkpoint::open(folder.write("model.gguf", parts.file()));
  ASSERT_TRUE(gguf.ok()) << gguf.error().message();
  const auto result = gguf->matrix("blk.0.x", 2, 256);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, base::ErrorCode::unsupported);
  EXPECT_EQ(result.error().message(), "model.gguf: blk.0.x.weight: weights of type Q8_K are not supported");
}

// One block of every type by its id.
TEST(Checkpoint, GgufTypesAreTheirFormats) {
  struct Type {
    uint32_t id;
    const char* format;
  };
  for (const Type& type : std::initializer_list<Type>{{0, "f32"},
                                                      {1, "f16"},
                                                      {2, "q4_0"},
                                                      {3, "q4_1"},
                                                      {6, "q5_0"},
                                                      {7, "q5_1"},
                                                      {8, "q8_0"},
                                                      {10, "q2_k"},
                                                      {11, "q3_k"},
                                                      {12, "q4_k"},
                                                      {13, "q5_k"},
                                                      {14, "q6_k"},
                                                      {20, "iq4_nl"},
                                                      {23, "iq4_xs"},
                                                      {30, "bf16"},
                                                      {39, "mxfp4_block"}}) {
    const GgufType* stored = find_gguf_type(type.id);
    ASSERT_NE(stored, nullptr);
    TempFolder folder;
    GgufParts parts;
    parts.tensors = {GgufParts::tensor("x.weight", {256, 2}, type.id, 0)};
    parts.data.assign(2 * 256 / stored->block * stored->block_bytes, 'x');
    const auto gguf = Checkpoint::open(folder.write("model.gguf", parts.file()));
    ASSERT_TRUE(gguf.ok()) << gguf.error().message();
    const auto matrix = gguf->matrix("x", 2, 256);
    ASSERT_TRUE(matrix.ok()) << matrix.error().message();
    EXPECT_EQ(matrix->format.name(), type.format);
    EXPECT_EQ(matrix->bytes(), static_cast<int64_t>(parts.data.size()));
    EXPECT_EQ(find_gguf_type(matrix->format), stored);
  }
}

TEST(Checkpoint, GgufGettersTakeAnyWidth) {
  const auto opened = Checkpoint::open(kFixtures + "gguf/model.gguf");
  ASSERT_TRUE(opened.ok());
  const Checkpoint& gguf = *opened;
  EXPECT_EQ(gguf.container(), Container::gguf);
  EXPECT_EQ(*gguf.gguf_string("general.architecture"), "llama");
  EXPECT_EQ(*gguf.gguf_integer("llama.block_count"), 2);
  EXPECT_EQ(*gguf.gguf_integer("llama.context_length"), 2048);
  EXPECT_EQ(*gguf.gguf_integer("test.small"), -5);
  EXPECT_EQ(*gguf.gguf_number("test.small"), -5.0);
  EXPECT_EQ(*gguf.gguf_number("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(*gguf.gguf_number("test.double"), 0.1);
  EXPECT_FALSE(*gguf.gguf_bool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(*gguf.gguf_integers("llama.attention.head_count_kv"), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(*gguf.gguf_integers("llama.block_count"), (std::vector<int64_t>{2}));
  EXPECT_EQ(*gguf.gguf_numbers("tokenizer.ggml.scores"), (std::vector<double>{0.5, -1, 2, 3}));
  EXPECT_EQ((**gguf.gguf_strings("tokenizer.ggml.tokens"))[3], "日本");
  EXPECT_EQ(*gguf.gguf_string("tokenizer.chat_template"), "{{ 'é' }}");
  EXPECT_EQ(*gguf.gguf_integer("absent", 7), 7);
  EXPECT_EQ(*gguf.gguf_number("absent", 0.5), 0.5);
  EXPECT_EQ(*gguf.gguf_string("absent", "x"), "x");
  EXPECT_TRUE(*gguf.gguf_bool("absent", true));
  EXPECT_EQ(gguf.gguf_integer("absent").error().code, base::ErrorCode::not_found);
  EXPECT_EQ(gguf.gguf_integer("general.architecture", 7).error().code, base::ErrorCode::invalid_data);
  EXPECT_EQ(gguf.gguf_strings("llama.block_count").error().message(),
            "model.gguf: llama.block_count: the metadata value is not a list of strings");
  EXPECT_TRUE(gguf.sidecar("tokenizer.json").ok());
  EXPECT_FALSE(gguf.sidecar("tokenizer.json")->has_value());
}

TEST(Checkpoint, SidecarsStayInTheFolder) {
  TempFolder folder;
  folder.write("m/config.json", "{}");
  folder.write("m/model.safetensors", one_byte_tensor("a"));
  folder.write("m/tokenizer.json", "text");
  folder.write("secret", "x");
  const auto checkpoint = Checkpoint::open(folder / "m");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->sidecar("tokenizer.json")->value(), "text");
  EXPECT_FALSE(checkpoint->sidecar("chat_template.jinja")->has_value());
  EXPECT_FALSE(checkpoint->sidecar("../secret").ok());
  EXPECT_FALSE(checkpoint->sidecar("").ok());
  EXPECT_EQ(checkpoint->config_json(), "{}");
}

// --- which files belong to a model

TEST(Checkpoint, ShardsComeFromTheIndex) {
  TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("model-00001-of-00002.safetensors", one_byte_tensor("a"));
  folder.write("model-00002-of-00002.safetensors", one_byte_tensor("b"));
  folder.write("adapters.safetensors", one_byte_tensor("adapter"));
  folder.write("model-stale.safetensors", one_byte_tensor("stale"));
  const auto index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":2},"weight_map":)" + map + "}");
    return refusal(folder.path());
  };
  EXPECT_EQ(index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})"), "");
  const auto checkpoint = Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint->has("a") && checkpoint->has("b"));
  EXPECT_FALSE(checkpoint->has("stale") || checkpoint->has("adapter"));
  EXPECT_CONTAINS(index(R"({"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors"})"),
                  "where the index puts it");
  EXPECT_CONTAINS(index(R"({"a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"})"),
                  "c: the tensor is not in");
  EXPECT_CONTAINS(index(R"({"a":"model-00003-of-00003.safetensors"})"), "cannot open");
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a\\\\b.safetensors",
                           "x\\u0000.safetensors", "..safetensors", ".safetensors", "model.bin", ""}) {
    EXPECT_CONTAINS(index(std::string("{\"a\":\"") + name + "\"}"), "beside the index") << name;
  }
  EXPECT_CONTAINS(index(R"({"a":3})"), "beside the index");
  EXPECT_CONTAINS(index(R"({"a":"x.safetensors","a":"y.safetensors"})"), "duplicate");
  EXPECT_CONTAINS(index("[]"), "weight_map is not an object");
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_CONTAINS(refusal(folder.path()), "no weight_map");
  folder.write("model.safetensors.index.json", "");
  EXPECT_CONTAINS(refusal(folder.path()), "malformed");
  // The same tensor in two shards.
  folder.write("model-00002-of-00002.safetensors", one_byte_tensor("a"));
  EXPECT_CONTAINS(index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})"),
                  "the tensor is in");
}

TEST(Checkpoint, WithoutAnIndexTheRightFilesAreTaken) {
  TempFolder folder;
  folder.write("config.json", "{}");
  EXPECT_CONTAINS(refusal(folder.path()), "no weights");
  folder.write("adapters.safetensors", one_byte_tensor("adapter"));
  EXPECT_CONTAINS(refusal(folder.path()), "no weights");
  folder.write("model-a.safetensors", one_byte_tensor("a"));
  folder.write("model-b.safetensors", one_byte_tensor("b"));
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  folder.write("model.safetensors", one_byte_tensor("only"));
  checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
  EXPECT_TRUE(Checkpoint::open(folder / "model-a.safetensors")->has("only"));
  EXPECT_TRUE(Checkpoint::open(folder / "config.json")->has("only"));
}

TEST(Checkpoint, NearMissesSayWhatToDo) {
  TempFolder folder;
  EXPECT_CONTAINS(refusal(folder / "nothing"), "no such file or folder");
  EXPECT_CONTAINS(refusal(""), "no such file or folder");
  EXPECT_CONTAINS(refusal(folder.path()), "no model in this folder");
  folder.write("note.txt", "hello");
  EXPECT_CONTAINS(refusal(folder / "note.txt"), "not a model file");
  folder.write("m/model.safetensors", one_byte_tensor("a"));
  EXPECT_CONTAINS(refusal(folder / "m"), "no config.json");
  EXPECT_CONTAINS(refusal(folder / "m/model.safetensors"), "config.json");
  folder.write("m/config.json", "{\"a\":1,\"a\":2}");
  EXPECT_CONTAINS(refusal(folder / "m"), "duplicate key a");
  folder.write("p/config.json", "{}");
  folder.write("p/pytorch_model.bin", "x");
  EXPECT_CONTAINS(refusal(folder / "p"), "PyTorch");
  folder.write("g/model.gguf", GgufParts().file());
  EXPECT_EQ(refusal(folder / "g"), "");
  folder.write("g/config.json", "{}");
  EXPECT_EQ(refusal(folder / "g"), "");
  folder.write("g/other.gguf", GgufParts().file());
  std::filesystem::remove(folder / "g/config.json");
  EXPECT_CONTAINS(refusal(folder / "g"), "model.gguf, other.gguf");
  folder.write("g/blob", GgufParts().file());
  EXPECT_EQ(refusal(folder / "g/blob"), "");
  folder.write("e/config.json", "{}");
  folder.write("e/model.safetensors", "");
  EXPECT_CONTAINS(refusal(folder / "e"), "empty");
}

TEST(Checkpoint, HugeTextFilesAreRefusedUnread) {
  TempFolder folder;
  folder.write("m/config.json", "{}");
  folder.write("m/model.safetensors", one_byte_tensor("a"));
  const auto checkpoint = Checkpoint::open(folder / "m");
  ASSERT_TRUE(checkpoint.ok());
  folder.write("m/tokenizer.json", "{");
  std::filesystem::resize_file(folder / "m/tokenizer.json", 3'000'000'000);  // sparse
  const auto sidecar = checkpoint->sidecar("tokenizer.json");
  ASSERT_FALSE(sidecar.ok());
  EXPECT_CONTAINS(sidecar.error().message(),
                  "tokenizer.json: the file has 3000000000 bytes, more than the 268435456 that it may have");
  std::filesystem::resize_file(folder / "m/config.json", 3'000'000'000);
  EXPECT_CONTAINS(refusal(folder / "m"), "config.json: the file has 3000000000 bytes");
}

TEST(Checkpoint, PipesDoNotHang) {
  TempFolder folder;
  folder.write("m/config.json", "{}");
  ASSERT_EQ(::mkfifo((folder / "m/model-x.safetensors").c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(folder / "m"), "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "m/model.gguf").c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(folder / "m/model.gguf"), "neither a file nor a folder");
  folder.write("n/model.safetensors", one_byte_tensor("a"));
  ASSERT_EQ(::mkfifo((folder / "n/config.json").c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(folder / "n"), "not a regular file");
}

TEST(Checkpoint, HubCacheRepositories) {
  TempFolder folder;
  const std::string repository = "models--org--name";
  folder.write(repository + "/blobs/aaa", "{}");
  folder.write(repository + "/blobs/bbb", one_byte_tensor("a"));
  folder.write("outside", one_byte_tensor("a"));
  const auto link = [&](const std::string& to, const std::string& name) {
    const std::string path = folder / (repository + "/snapshots/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::create_symlink(to, path);
  };
  link("../../blobs/aaa", "111/config.json");
  link("../../blobs/bbb", "111/model.safetensors");
  EXPECT_EQ(refusal(folder / repository), "");
  EXPECT_EQ(refusal(folder / (repository + "/")), "");
  EXPECT_EQ(refusal(folder / (repository + "/snapshots/111")), "");
  link("../../blobs/aaa", "222/config.json");
  link("../../../outside", "222/model.safetensors");
  EXPECT_CONTAINS(refusal(folder / repository), "several snapshots");
  folder.write(repository + "/refs/main", "111\n");
  EXPECT_EQ(refusal(folder / repository), "");
  folder.write(repository + "/refs/main", "222");
  EXPECT_CONTAINS(refusal(folder / repository), "leaves its repository");
  EXPECT_CONTAINS(refusal(folder / (repository + "/snapshots/222")), "leaves its repository");
  folder.write(repository + "/refs/main", "../../..");
  EXPECT_CONTAINS(refusal(folder / repository), "several snapshots");
}

TEST(Checkpoint, SplitGgufFilesAreJoined) {
  TempFolder folder;
  const auto part = [&](int no, int count, const std::string& tensor, int declared = 2) {
    GgufParts parts;
    parts.keys = {GgufParts::key("split.no", 2, packed<uint16_t>(static_cast<uint16_t>(no))),
                  GgufParts::key("split.count", 2, packed<uint16_t>(static_cast<uint16_t>(count))),
                  GgufParts::key("split.tensors.count", 5, packed<int32_t>(declared)),
                  GgufParts::key("no", 4, packed<uint32_t>(static_cast<uint32_t>(no)))};
    parts.tensors = {GgufParts::tensor(tensor, {4}, 0, 0)};
    parts.data.assign(16, 'x');
    return parts.file();
  };
  const std::string first = folder.write("m-00001-of-00002.gguf", part(0, 2, "a"));
  EXPECT_CONTAINS(refusal(first), "m-00002-of-00002.gguf: part 2 of 2 is missing");
  const std::string second = folder.write("m-00002-of-00002.gguf", part(1, 2, "b"));
  for (const std::string& path : {first, second, folder.path()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
    EXPECT_EQ(checkpoint->tensors().size(), 2u);
    EXPECT_EQ(*checkpoint->gguf_integer("no"), 0);
    EXPECT_EQ(testing::views_fault(checkpoint->tensors(), checkpoint->files()), "");
  }
  folder.write("m-00002-of-00002.gguf", part(1, 2, "a"));
  EXPECT_CONTAINS(refusal(first), "earlier part");
  folder.write("m-00002-of-00002.gguf", part(1, 3, "b"));
  EXPECT_CONTAINS(refusal(first), "does not say that it is part 2 of 2");
  folder.write("m-00002-of-00002.gguf", part(1, 2, "b", 5));
  EXPECT_CONTAINS(refusal(first),
                  "split.tensors.count: the value is not that of the first part (the parts are of");
  folder.write("m-00001-of-00002.gguf", part(0, 2, "a", 3));
  folder.write("m-00002-of-00002.gguf", part(1, 2, "b", 3));
  EXPECT_CONTAINS(refusal(first), "3 tensors declared, 2 found");
  EXPECT_CONTAINS(refusal(folder.write("renamed.gguf", part(0, 2, "a"))), "under another name");
  EXPECT_CONTAINS(refusal(folder.write("x.gguf", part(7, 2, "a"))), "under another name");
}

// --- MLX's quantization block

// A folder with one module `m` of 2 × 64 values in 4 bits and groups of 64, with or without scales.
std::string mlx_error(const std::string& config, bool scales = true, const char* scale_type = "BF16") {
  TempFolder folder;
  std::string header = R"({"m.weight":{"dtype":"U32","shape":[2,8],"data_offsets":[0,64]})";
  std::string data(64, 'x');
  if (scales) {
    header +=
        std::string(R"(,"m.scales":{"dtype":")") + scale_type + R"(","shape":[2,1],"data_offsets":[64,68]})";
    header += R"(,"m.biases":{"dtype":"BF16","shape":[2,1],"data_offsets":[68,72]})";
    data.append(8, 'x');
  }
  folder.write("config.json", config);
  folder.write("model.safetensors", safetensors_file(header + "}", data));
  const auto checkpoint = Checkpoint::open(folder.path());
  if (!checkpoint.ok()) return checkpoint.error().message();
  const auto matrix = checkpoint->matrix("m", 2, 64);
  if (!matrix.ok()) return matrix.error().message();
  return matrix->format.name();
}

TEST(MlxQuantization, EntriesWinAndScalesDecideTheRest) {
  EXPECT_EQ(mlx_error(R"({"quantization":{"group_size":64,"bits":4}})"), "q4g64");
  EXPECT_EQ(mlx_error(R"({"quantization":{}})"), "q4g64");
  EXPECT_EQ(
      mlx_error(R"({"quantization":null,"quantization_config":{"group_size":64,"bits":4,"mode":"affine"}})"),
      "q4g64");
  EXPECT_EQ(mlx_error(R"({"text_config":{"quantization_config":{"group_size":64,"bits":4}}})"), "q4g64");
  EXPECT_EQ(mlx_error(R"({"quantization":{"group_size":32,"bits":8,"m":{"bits":4,"group_size":64}}})"),
            "q4g64");
  EXPECT_EQ(mlx_error(R"({"quantization":{"group_size":64,"bits":8,"m":{"bits":4}}})"),
            "q4g64");  // inherits the group
  EXPECT_EQ(mlx_error(R"({"quantization":{"group_size":64,"bits":4,"m":true}})"), "q4g64");
  EXPECT_EQ(
      mlx_error(
          R"({"quantization":{"group_size":64,"bits":4},"quantization_config":{"quant_method":"x","bits":2}})"),
      "q4g64");
  EXPECT_EQ(
      mlx_error(R"({"quantization":{"group_size":64,"bits":4,"mode":"affine","ignore":["a"],"n":null}})"),
      "q4g64");
}

TEST(MlxQuantization, ContradictionsAreErrors) {
  EXPECT_CONTAINS(mlx_error("{}"), "no quantization block");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4,"m":false}})"),
                  "not quantised but the file has scales");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4,"m":{"bits":4}}})", false),
                  "quantised but the file has no scales");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4}})", false), "[2, 8] where the model needs [2, 64]");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"group_size":64,"bits":8}})"),
                  "m.weight (8 bits): its shape is [2, 8]");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"group_size":32,"bits":4}})"),
                  "m.scales: its shape is [2, 1]");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4}})", true, "F16"), "scales are F16 but biases BF16");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4}})", true, "I16"), "I16 is not supported");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":"4"}})"), "wrong type");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":4,"m":{"bits":-4}}})"), "wrong type");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":[4]})"), "no object");
  EXPECT_CONTAINS(mlx_error("[]"), "not a JSON object");
}

// A folder with one module `m` of 2 × 64 values in codes of `bits` bits under scales of `group`.
std::string floating_error(const std::string& config, int bits, int group, bool biases = false,
                           const char* type = "U8") {
  TempFolder folder;
  const int codes = 2 * 64 * bits / 8, scales = 2 * 64 / group;
  std::string header = fmt::format(R"({{"m.weight":{{"dtype":"U32","shape":[2,{}],"data_offsets":[0,{}]}},)"
                                   R"("m.scales":{{"dtype":"{}","shape":[2,{}],"data_offsets":[{},{}]}})",
                                   2 * bits, codes, type, 64 / group, codes, codes + scales);
  std::string data(static_cast<size_t>(codes + scales), 'x');
  if (biases) {
    header += fmt::format(R"(,"m.biases":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          codes + scales, codes + scales + 1);
    data += 'x';
  }
  folder.write("config.json", config);
  folder.write("model.safetensors", safetensors_file(header + "}", data));
  const auto checkpoint = Checkpoint::open(folder.path());
  if (!checkpoint.ok()) return checkpoint.error().message();
  const auto matrix = checkpoint->matrix("m", 2, 64);
  return matrix.ok() ? matrix->format.name() : matrix.error().message();
}

TEST(MlxQuantization, FloatingPointModes) {
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"mxfp4"}})", 4, 32), "mxfp4");
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"mxfp8"}})", 8, 32), "mxfp8");
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"nvfp4"}})", 4, 16), "nvfp4");
  EXPECT_EQ(floating_error(R"({"quantization":{"group_size":16,"bits":4,"mode":"nvfp4"}})", 4, 16), "nvfp4");
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"nvfp4"}})", 4, 16, false, "F8_E4M3"), "nvfp4");
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"mxfp4"}})", 4, 32, false, "F8_E8M0"), "mxfp4");
  // An entry of another mode has that mode's defaults, not the top level's.
  EXPECT_EQ(floating_error(R"({"quantization":{"group_size":64,"bits":4,"m":{"mode":"nvfp4"}}})", 4, 16),
            "nvfp4");
  EXPECT_EQ(floating_error(R"({"quantization":{"group_size":64,"bits":4,"m":{"mode":"mxfp8"}}})", 8, 32),
            "mxfp8");
  EXPECT_EQ(mlx_error(R"({"quantization":{"mode":"mxfp8","m":{"mode":"affine"}}})"), "q4g64");
  EXPECT_EQ(floating_error(R"({"quantization":{"mode":"mxfp8","m":{"mode":"mxfp8"}}})", 8, 32), "mxfp8");

  EXPECT_CONTAINS(floating_error(R"({"quantization":{"group_size":64,"bits":4,"mode":"mxfp4"}})", 4, 32),
                  "m.weight: 4 bits in groups of 64 are not supported in mode mxfp4");
  EXPECT_CONTAINS(floating_error(R"({"quantization":{"mode":"mxfp4"}})", 4, 32, true), "has no biases");
  EXPECT_CONTAINS(floating_error(R"({"quantization":{"mode":"mxfp4"}})", 4, 16),
                  "m.scales: its shape is [2, 4] where the model needs [2, 2]");
  EXPECT_CONTAINS(floating_error(R"({"quantization":{"mode":"mxfp8"}})", 4, 32),
                  "m.weight (8 bits): its shape");
  EXPECT_CONTAINS(floating_error(R"({"quantization":{"mode":"nvfp4"}})", 4, 16, false, "I8"),
                  "scales of type I8 instead of U8 in mode nvfp4");
}

TEST(MlxQuantization, PythonsNonFiniteNumbersAreRefusedOnlyWhereTheyAreRead) {
  EXPECT_EQ(mlx_error(R"({"x":NaN,"y":[-Infinity, Infinity ],"quantization":{"bits":4}})"), "q4g64");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":NaN}})"), "quantization bits is of the wrong type");
  EXPECT_CONTAINS(mlx_error(R"({NaN:1})"), "malformed");
  EXPECT_CONTAINS(mlx_error(R"({"a":1,NaN:1})"), "malformed");
  EXPECT_CONTAINS(mlx_error(R"({"a":NaNs})"), "malformed");
  EXPECT_CONTAINS(mlx_error(R"({"a":nan})"), "malformed");
  EXPECT_CONTAINS(mlx_error(R"({"a":+Infinity})"), "malformed");
  EXPECT_CONTAINS(mlx_error("NaN"), "malformed");
  const std::string words = R"({"a":": NaN, [Infinity]","b":"\\\":NaN,"})";
  EXPECT_EQ(quote_non_finite_numbers(words), words);
  EXPECT_EQ(quote_non_finite_numbers(R"([NaN,-Infinity,{"a" :	Infinity}])"),
            R"(["NaN","-Infinity",{"a" :	"Infinity"}])");
  for (const char* cut : {"\"", "\"\\", "[", "[-", "[NaN", ":"})
    EXPECT_EQ(quote_non_finite_numbers(cut), cut);
}

TEST(MlxQuantization, WhatIsNotReadIsNamed) {
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"group_size":32,"bits":4,"mode":"int4"}})"),
                  "m.weight: quantization mode \"int4\"");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":7}})"), "7 bits in groups of 64");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"group_size":48}})"), "groups of 48");
  EXPECT_CONTAINS(mlx_error(R"({"quantization":{"bits":18446744073709551615}})"), "are not supported");
  EXPECT_CONTAINS(mlx_error(R"({"quantization_config":{"quant_method":"awq","bits":4}})"),
                  "quantised by \"awq\"");
  EXPECT_CONTAINS(mlx_error(R"({"text_config":{"quantization_config":{"quant_method":"gptq"}}})"),
                  "\"gptq\"");
  for (const char* method : {"awq", "gptq", "bitsandbytes", "fp8", "fbgemm_fp8", "compressed-tensors",
                             "modelopt", "mxfp4", "bitnet", "quanto", "torchao", "hqq"}) {
    const std::string config = fmt::format(R"({{"quantization_config":{{"quant_method":"{}"}}}})", method);
    EXPECT_CONTAINS(mlx_error(config),
                    fmt::format("quantised by \"{}\", which is not supported (use an MLX", method));
  }
  EXPECT_CONTAINS(mlx_error(R"({"quantization_config":{"load_in_4bit":true}})"), "\"bitsandbytes\"");
  EXPECT_CONTAINS(mlx_error(R"({"quantization_config":{"load_in_8bit":true}})"), "\"bitsandbytes\"");
}

// Weights of other quantisers whose config says nothing of it.
TEST(MlxQuantization, ForeignCodesAreRefusedByName) {
  for (const auto& [suffix, quantiser] : {std::pair{"qweight", "GPTQ or AWQ"},
                                          {"weight_packed", "compressed-tensors"},
                                          {"weight_scale_inv", "block-wise fp8"},
                                          {"weight_scale", "fp8"}}) {
    TempFolder folder;
    folder.write("config.json", "{}");
    folder.write("model.safetensors", one_byte_tensor(std::string("m.") + suffix));
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint.ok());
    EXPECT_CONTAINS(checkpoint->matrix("m", 1, 1).error().message(),
                    fmt::format("m.{}: weights quantised by {} are not supported (use", suffix, quantiser));
  }
}

}  // namespace
}  // namespace rafter::format

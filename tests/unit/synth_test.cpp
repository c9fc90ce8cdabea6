// Synthetic checkpoints before a model runs on them: names and shapes as other programs have them, the random
// numbers, the tokenizer, and what happens to the folder.
#include "lab/synth.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "format/gguf_types.h"
#include "format/safetensors_header.h"
#include "lab/synth_config.h"
#include "lab/synth_folder.h"
#include "lab/synth_random.h"
#include "lab/synth_tensors.h"
#include "lab/synth_tokenizer.h"
#include "tests/support/synth_checks.h"
#include "tests/support/temp_folder.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace rafter::lab {
namespace {

using nlohmann::json;
using testing::TempFolder;
using testing::TensorNames;

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

const SynthShape& shape_of(const std::string& name) { return **find_synth_shape(name); }

SynthFormat format_of(const std::string& name) { return *find_synth_format(name, 64); }

std::vector<SynthTensor> tensors_of(const std::string& shape, const SynthFormat& format) {
  return synth_tensors(shape_of(shape), format).value();
}

// What a checkpoint will hold, without writing it.
TensorNames planned_tensors(const std::string& shape, const SynthFormat& format) {
  TensorNames result;
  for (const SynthTensor& tensor : tensors_of(shape, format)) {
    if (format.container == format::Container::gguf) {
      result[tensor.name()] = testing::tensor_text(format::find_gguf_type(tensor.format)->name, tensor.shape);
      continue;
    }
    for (const SynthPart& part : safetensors_parts(tensor))
      result[part.name] = testing::tensor_text(format::safetensors_type(part.type).name, part.shape);
  }
  return result;
}

double streamed_gigabytes(const std::string& shape, const std::string& format) {
  int64_t bytes = 0;
  for (const SynthTensor& tensor : tensors_of(shape, format_of(format))) bytes += tensor.streamed_bytes();
  return static_cast<double>(bytes) * 1e-9;
}

SynthOptions tiny(const std::string& folder, const std::string& format, uint64_t seed = 0) {
  SynthOptions options;
  options.shape = "llama3-tiny";
  options.format = format;
  options.folder = folder;
  options.seed = seed;
  return options;
}

std::string refusal(const SynthOptions& options) {
  const auto result = run_synth_blocking(options);
  return result.ok() ? "" : result.error().message();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SynthTensors, NamesAndShapesAreThoseOfOtherPrograms) {
  for (const SynthShape& shape : synth_shapes()) {
    for (const char* format : {"bf16", "mlx4", "mlx-mixed", "q4_0"}) {
      EXPECT_EQ(testing::names_fault(testing::expected_tensors(shape.name, format),
                                     planned_tensors(shape.name, format_of(format))),
                "")
          << shape.name << " " << format;
    }
  }
}

TEST(SynthTensors, UniformFormatsDifferInWidthOnly) {
  const auto parameters = [](const SynthFormat& format) {
    int64_t sum = 0;
    for (const SynthTensor& tensor : tensors_of("cpm5-1b", format)) sum += tensor.parameters();
    return sum;
  };
  for (const SynthFormat& format : synth_formats()) EXPECT_EQ(parameters(format), 1'080'632'832);
  const TensorNames mlx8 = planned_tensors("cpm5-1b", format_of("mlx8"));
  EXPECT_EQ(mlx8.at("model.layers.7.self_attn.o_proj.weight"), "U32 1536 512");
  EXPECT_EQ(mlx8.at("model.layers.7.self_attn.o_proj.scales"), "BF16 1536 32");
  EXPECT_EQ(planned_tensors("cpm5-1b", *find_synth_format("mlx8", 128)).at("lm_head.scales"),
            "BF16 130560 12");
  EXPECT_EQ(planned_tensors("cpm5-1b", format_of("q8_0")).at("blk.7.attn_output.weight"), "Q8_0 1536 2048");
}

TEST(SynthTensors, StreamedBytesAreTheRooflines) {
  // Uniform 4 bits; 8 bits by 8.5 / 4.5; the head counts when it is tied, the embedding never.
  EXPECT_NEAR(streamed_gigabytes("cpm5-1b", "mlx4"), 0.495, 0.0005);
  EXPECT_NEAR(streamed_gigabytes("cpm5-1b", "q4_0"), 0.495, 0.0005);
  EXPECT_NEAR(streamed_gigabytes("cpm5-1b", "mlx8"), 0.495 * 8.5 / 4.5, 0.001);
  EXPECT_NEAR(streamed_gigabytes("llama3-8b", "mlx4"), 4.22, 0.005);
  EXPECT_NEAR(streamed_gigabytes("llama3.2-1b", "bf16"), 2 * 1.2358, 0.001);
  EXPECT_NEAR(streamed_gigabytes("gemma4-e4b", "mlx4"), 2.612, 0.002);
  EXPECT_NEAR(streamed_gigabytes("gemma4-12b", "mlx4"), 6.698, 0.005);
  EXPECT_NEAR(streamed_gigabytes("gemma4-26b-a4b", "mlx4"), 2.150, 0.002);
}

// The first key, of the objects inside too, whose value is not the expected one.
std::string config_fault(const json& expected, const json& config) {
  for (const auto& [key, value] : expected.items()) {
    if (!config.contains(key)) return key + " is missing";
    const std::string inner = value.is_object() ? config_fault(value, config.at(key)) : "";
    if (!inner.empty()) return key + ": " + inner;
    if (!value.is_object() && config.at(key) != value)
      return key + " is " + config.at(key).dump() + ", not " + value.dump();
  }
  return "";
}

TEST(SynthConfig, SaysWhatThePublishedOnesSay) {
  std::ifstream file(RAFTER_SOURCE_DIR "/tests/fixtures/synth/configs.json");
  const json expected = json::parse(file);
  ASSERT_EQ(expected.size(), synth_shapes().size());
  for (const SynthShape& shape : synth_shapes()) {
    const json config = json::parse(config_json(shape, format_of("bf16"), {}));
    EXPECT_EQ(config_fault(expected.at(shape.name).at("config"), config), "") << shape.name;
    EXPECT_FALSE(config.contains("quantization"));
    const std::vector<double> divisors = expected.at(shape.name).at("rope_divisors");
    ASSERT_EQ(shape.rope_scaling.has_value(), !divisors.empty());
    if (divisors.empty()) continue;
    const std::vector<float> ours = rope_divisors(shape);
    ASSERT_EQ(ours.size(), divisors.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], divisors[i], divisors[i] * 2e-6);
  }
}

TEST(SynthConfig, MixedNamesEveryModuleThatDiffers) {
  const SynthFormat format = format_of("mlx-mixed");
  const json config = json::parse(config_json(shape_of("cpm5-1b"), format, tensors_of("cpm5-1b", format)));
  const json& block = config.at("quantization");
  EXPECT_EQ(block, config.at("quantization_config"));
  EXPECT_EQ(block.at("bits"), 4);
  EXPECT_EQ(block.at("group_size"), 64);
  EXPECT_EQ(block.size(), 3u + 2 + 2 * 7);
  const json eight = {{"bits", 8}, {"group_size", 64}};
  for (const char* module : {"lm_head", "model.embed_tokens", "model.layers.0.self_attn.v_proj",
                             "model.layers.23.mlp.down_proj"}) {
    EXPECT_EQ(block.at(module), eight) << module;
  }
}

TEST(SynthRandom, MomentsAndBytesOfEveryFormat) {
  struct Case {
    const char* format;
    uint64_t hash;  // xxh64 of 512 rows of 256 columns, key 7: the same on every machine
  };
  for (const Case& c : {Case{"bf16", 15804990146459924120u},
                        {"mlx4", 1423483574653107408u},
                        {"mlx8", 17976289617933033997u},
                        {"q4_0", 16767352505379302378u},
                        {"q8_0", 7246145663770688251u},
                        {"q4_k", 17665298605096723028u},
                        {"q5_k", 5545641503406692433u},
                        {"q6_k", 3357091836945534951u}}) {
    const tensor::NumberFormat format = format_of(c.format).inner;
    const int64_t rows = 512, columns = 256;
    tensor::EncodedMatrix matrix{format, rows, columns, {}, {}, {}};
    matrix.data.resize(static_cast<size_t>(rows * format.row_bytes(columns)));
    matrix.scales.resize(static_cast<size_t>(rows * format.scale_row_bytes(columns)));
    matrix.biases.resize(matrix.scales.size());
    const RandomMatrix random(format, columns, 7);
    random.fill(0, matrix.data, matrix.scales, matrix.biases);
    EXPECT_EQ(testing::moments_fault(matrix.view()), "") << c.format;

    std::vector<std::byte> all = matrix.data;
    all.insert(all.end(), matrix.scales.begin(), matrix.scales.end());
    all.insert(all.end(), matrix.biases.begin(), matrix.biases.end());
    EXPECT_EQ(XXH64(all.data(), all.size(), 0), c.hash) << c.format;

    // A row alone has the bytes that it has in company.
    std::vector<std::byte> data(static_cast<size_t>(format.row_bytes(columns)));
    std::vector<std::byte> scales(static_cast<size_t>(format.scale_row_bytes(columns))),
        biases(scales.size());
    random.fill(300, data, scales, biases);
    EXPECT_EQ(std::memcmp(data.data(), matrix.view().row(300), data.size()), 0) << c.format;
    if (!scales.empty()) {
      EXPECT_EQ(std::memcmp(biases.data(), matrix.view().bias_row(300), biases.size()), 0) << c.format;
    }
  }
}

TEST(SynthRandom, NormsAreNearOneAndKeysDiffer) {
  std::vector<std::byte> data(4096 * 2);
  fill_random_vector(tensor::DType::bf16, synth_key(0, "model.norm"), data, {0.75f, 1.25f});
  float lowest = 2, highest = 0;
  for (int64_t i = 0; i < 4096; ++i) {
    const float value = tensor::load_float(tensor::DType::bf16, data.data(), i);
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  EXPECT_EQ(lowest, 0.75f);
  EXPECT_EQ(highest, 1.25f);
  EXPECT_NE(synth_key(0, "a"), synth_key(0, "b"));
  EXPECT_NE(synth_key(0, "a"), synth_key(1, "a"));
}

TEST(SynthTokenizer, EveryIdIsTextAndMarkersAreWhereTheyBelong) {
  for (const char* name : {"llama3-tiny", "qwen3-tiny", "cpm5-1b", "llama3-8b", "gemma4-e2b",
                           "gemma4-12b-tiny", "qwen3.5-4b", "qwen3.5-4b-tiny"}) {
    const SynthShape& shape = shape_of(name);
    const auto tokenizer = text::Tokenizer::from_json(tokenizer_json(shape), "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    ASSERT_EQ(tokenizer->vocab_size(), shape.vocabulary);
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      const std::vector<int32_t> ids = {id};
      ASSERT_FALSE(tokenizer->decode(ids, false).empty()) << id;
    }
    for (const SynthMarker& marker : shape.tokens.markers) {
      EXPECT_EQ(tokenizer->token_id(marker.text), marker.id);
      EXPECT_EQ(tokenizer->is_special(marker.id), marker.special);
    }
    const std::string prompt = "Say \"the\" w300 größe 🙂\n\n" + shape.tokens.markers.back().text;
    const auto ids = tokenizer->encode(prompt, false);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(tokenizer->decode(*ids, false), prompt);
    EXPECT_EQ(ids->back(), shape.tokens.markers.back().id);
    EXPECT_EQ(tokenizer->prefix(),
              shape.tokens.adds_bos ? std::vector<int32_t>{shape.tokens.bos} : std::vector<int32_t>{});
  }
}

TEST(SynthTokenizer, ChatTemplatesRender) {
  const auto rendered = [](const char* shape) {
    const json settings = json::parse(tokenizer_config_json(shape_of(shape)));
    const auto chat = text::ChatTemplate::parse(settings.at("chat_template").get<std::string>(), shape);
    EXPECT_TRUE(chat.ok()) << chat.error().message();
    const json input = {{"messages", json::array({{{"role", "user"}, {"content", "Hi "}}})},
                        {"bos_token", settings.at("bos_token")},
                        {"add_generation_prompt", true}};
    const auto result = chat->render_json(input.dump());
    return result.ok() ? *result : result.error().message();
  };
  EXPECT_EQ(rendered("llama3-8b"),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(rendered("cpm5-1b"), "<s><|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered("qwen3-tiny"), "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered("gemma4-e4b"), "<bos><|turn>user\nHi<turn|>\n<|turn>model\n");
  EXPECT_EQ(rendered("qwen3.5-27b"), "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST(Synth, UnknownNamesAndGroupsAreRefused) {
  TempFolder folder;
  SynthOptions options = tiny(folder / "new", "mlx4");
  options.shape = "llama9";
  EXPECT_CONTAINS(refusal(options), "cpm5-1b, llama3-8b, llama3.2-1b, llama3-tiny, qwen3-tiny, gemma4-e2b");
  EXPECT_CONTAINS(refusal(tiny(folder / "new", "mlx5")),
                  "bf16, mlx4, mlx8, mlx-mixed, q4_0, q8_0, q4_k, q5_k, q6_k");
  options = tiny(folder / "new", "q8_0");
  options.group = 32;
  EXPECT_CONTAINS(refusal(options), "q8_0 has no groups");
  options = tiny(folder / "new", "mlx4");
  options.group = 48;
  EXPECT_CONTAINS(refusal(options), "48 columns");
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(Synth, AFolderThatHoldsSomethingIsRefused) {
  TempFolder folder;
  const std::string file = folder.write("out/notes.txt", "mine");
  EXPECT_CONTAINS(refusal(tiny(folder / "out", "mlx4")), "not empty");
  EXPECT_CONTAINS(refusal(tiny(file, "mlx4")), "not a folder");
  EXPECT_CONTAINS(refusal(tiny("", "mlx4")), "--out");
  EXPECT_EQ(files_in(folder / "out"), std::vector<std::string>{"notes.txt"});
}

TEST(Synth, ForceReplacesTheCheckpointAndNothingElse) {
  TempFolder folder;
  folder.write("notes.txt", "mine");
  folder.write("other.gguf", "mine");
  folder.write("model-00002-of-00003.safetensors", "stale");
  folder.write("config.json.123.tmp", "left by a killed run");
  folder.write("chat_template.jinja", "another model's");
  SynthOptions options = tiny(folder.path(), "mlx4");
  options.force = true;
  ASSERT_EQ(refusal(options), "");
  EXPECT_EQ(files_in(folder.path()),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                      "notes.txt", "other.gguf", "tokenizer.json", "tokenizer_config.json"}));
  // A GGUF file is a checkpoint by itself and replaces its own name only.
  options.format = "q4_0";
  ASSERT_EQ(refusal(options), "");
  EXPECT_EQ(files_in(folder.path()).size(), 8u);
  ASSERT_EQ(refusal(options), "");
  EXPECT_EQ(files_in(folder.path()).size(), 8u);
}

TEST(Synth, NoRoomIsRefusedWithTheNumbers) {
  TempFolder folder;
  const auto none = [](const std::string&) { return false; };
  const auto result = SynthFolder::prepare(folder / "new/", 5'000'000'000'000'000, false, none);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, base::ErrorCode::io);
  EXPECT_CONTAINS(result.error().message(), "5000000.00 GB are needed and ");
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(Synth, AStoppedRunLeavesNothing) {
  for (const char* format : {"bf16", "q8_0"}) {
    TempFolder folder;
    SynthOptions options = tiny(folder / "new", format);
    options.shard_bytes = 2'000'000;
    int64_t seen = 0;
    const auto result = run_synth_blocking(options, [&](int64_t done, int64_t total) -> base::Status {
      EXPECT_GT(done, seen);
      seen = done;
      if (done < total * 3 / 4) return {};
      return base::Error{base::ErrorCode::interrupted, "stopped", "", ""};
    });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, base::ErrorCode::interrupted);
    EXPECT_TRUE(files_in(folder.path()).empty());
  }
}

TEST(Synth, TheSameSeedGivesTheSameBytes) {
  TempFolder folder;
  for (const auto& written :
       {std::pair{"mlx-mixed", "/model.safetensors"}, std::pair{"q4_0", "/llama3-tiny-q4_0.gguf"}}) {
    const std::string format = written.first, file = written.second;
    const auto bytes = [&](const std::string& name, uint64_t seed) {
      EXPECT_EQ(refusal(tiny(folder / (name + format), format, seed)), "");
      return testing::read_file(folder / (name + format) + file);
    };
    const std::string first = bytes("a", 3);
    EXPECT_EQ(first, bytes("b", 3)) << format;
    EXPECT_NE(first, bytes("c", 4)) << format;
  }
}

}  // namespace
}  // namespace rafter::lab

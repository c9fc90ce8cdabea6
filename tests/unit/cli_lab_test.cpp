// perplexity, embed and roofline bytes from outside.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

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
using testing::ScopedVariable;
using testing::TempFolder;

class CliLab : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempFolder;
    qwen_ = new std::string(testing::write_synth_model("qwen3-tiny", "q8_0", models_->path()));
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("Line {} of a text about rivers and mountains.\n", i);
    text_ = new std::string(models_->write("text.txt", text));
  }
  static void TearDownTestSuite() {
    delete models_;
    delete qwen_;
    delete text_;
  }
  static const std::string& model() { return *qwen_; }
  static const std::string& text() { return *text_; }
  static std::string write(const std::string& name, const std::string& content) {
    return models_->write(name, content);
  }

  static json run_json(const std::vector<std::string>& arguments, const std::string& input = "") {
    const ProgramResult result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.out, nullptr, false);
  }
  static void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                             const std::string& what) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    EXPECT_NE(result.error.find(what), std::string::npos) << result.error;
    EXPECT_EQ(result.out, "");
  }

  TempFolder cache_;
  ScopedVariable cache_home_{"XDG_CACHE_HOME", cache_.path().c_str()};
  ScopedVariable no_hub_{"HF_HUB_CACHE", (cache_ / "hub").c_str()};

 private:
  static inline TempFolder* models_;
  static inline std::string *qwen_, *text_;
};

TEST_F(CliLab, HelpHasExamples) {
  for (const char* verb : {"perplexity", "embed", "roofline"}) {
    const ProgramResult help = run_program({"help", verb});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.out.find(std::string("rafter ") + verb), std::string::npos) << help.out;
  }
}

TEST_F(CliLab, Perplexity) {
  const json one = run_json(
      {"perplexity", model(), "--data", text(), "--sequence-length", "32", "--num-samples", "3", "--json"});
  EXPECT_EQ(one.at("windows"), 3);
  EXPECT_EQ(one.at("tokens"), 93);
  EXPECT_NEAR(one.at("perplexity").get<double>(), std::exp(one.at("mean_loss").get<double>()), 1e-6);
  EXPECT_FALSE(one.contains("kl"));

  const json compared =
      run_json({"perplexity", model(), "--data", text(), "--sequence-length", "32", "--num-samples", "3",
                "--kl-against", model(), "--against-precise", "--json"});
  EXPECT_EQ(compared.at("perplexity"), one.at("perplexity"));
  EXPECT_GT(compared.at("kl").at("mean").get<double>(), 0);
  EXPECT_LT(compared.at("kl").at("mean").get<double>(), 0.01);
  EXPECT_GE(compared.at("kl").at("max"), compared.at("kl").at("p99"));

  const std::string documents =
      write("d.jsonl", "{\"text\":\"one two three four five\"}\n\n{\"text\":\"six\"}\n");
  const ProgramResult printed =
      run_program({"perplexity", model(), "--data", documents, "--sequence-length", "4"});
  EXPECT_NE(printed.out.find("perplexity"), std::string::npos) << printed.error;
}

TEST_F(CliLab, PerplexitySaysWhatIsWrong) {
  expect_failure({"perplexity", model(), "--data", "/none/such"}, 1, "/none/such");
  expect_failure({"perplexity", model(), "--data", write("short.txt", "a b")}, 2, "tokens and a window");
  expect_failure({"perplexity", model(), "--data", write("bad.jsonl", "{\"text\":1}\n")}, 1, "line 1");
  expect_failure({"perplexity", model(), "--data", text(), "--against-precise"}, 2, "--kl-against");
}

TEST_F(CliLab, EmbedGivesOneVectorPerLine) {
  const std::string lines = "first line\nsecond, longer line of text\nfirst line\n";
  const ProgramResult result = run_program({"embed", model(), "-"}, lines);
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::istringstream stream(result.out);
  std::vector<json> vectors;
  for (std::string line; std::getline(stream, line);) vectors.push_back(json::parse(line));
  ASSERT_EQ(vectors.size(), 3u);
  EXPECT_EQ(vectors[0], vectors[2]);
  EXPECT_NE(vectors[0], vectors[1]);
  double length = 0;
  for (double value : vectors[1]) length += value * value;
  EXPECT_NEAR(length, 1, 1e-5);
  // A line alone, in another batch, with --json.
  const json object =
      run_json({"embed", model(), write("one.txt", "second, longer line of text\n"), "--json"});
  EXPECT_EQ(object.at("embedding"), vectors[1]);
  EXPECT_EQ(object.at("index"), 0);
  const json query = run_json({"embed", model(), write("one.txt", "second, longer line of text\n"), "--json",
                               "--instruction", "Find rivers"});
  EXPECT_GT(query.at("tokens"), object.at("tokens"));
  expect_failure({"embed", model(), "/none/such"}, 1, "/none/such");
}

TEST_F(CliLab, RooflineBytes) {
  const json shape = run_json({"roofline", "bytes", "--shape", "cpm5-1b", "--format", "mlx4", "--json"});
  EXPECT_NEAR(shape.at("streamed_bytes").get<double>(), 0.495e9, 0.495e9 * 0.005);
  EXPECT_EQ(shape.at("kv_bytes_at").at("600"), 600 * 24576);
  const json file = run_json({"roofline", "bytes", model(), "--ctx", "100", "--json"});
  EXPECT_EQ(file.at("kv_bytes"), file.at("kv_bytes_at").at("100"));
  EXPECT_EQ(file.at("per_token_bytes"), file.at("streamed_bytes").get<int64_t>() +
                                            file.at("kv_bytes").get<int64_t>() +
                                            file.at("row_gathered_row_bytes").get<int64_t>());
  EXPECT_NE(run_program({"roofline", "bytes", model()}).out.find("streamed weights"), std::string::npos);
  expect_failure({"roofline", "bytes"}, 2, "--shape");
  expect_failure({"roofline", "bytes", "--shape", "none", "--format", "mlx4"}, 2, "none");
}

// --kv-quant config|off|4|8, with and without the file that config means.
TEST_F(CliLab, QuantisedKeysAndValues) {
  const TempFolder folder;
  const std::string model = testing::write_synth_model("qwen3-tiny", "bf16", folder / "model");
  const auto account = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"roofline", "bytes", model, "--ctx", "64", "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const json answer = run_json(arguments);
    return std::pair(answer.at("kv").get<std::string>(), answer.at("kv_bytes").get<int64_t>());
  };
  const auto loss = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"perplexity",    model, "--data", text(), "--sequence-length", "64",
                                          "--num-samples", "2",   "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run_json(arguments).at("mean_loss").get<double>();
  };
  expect_failure({"perplexity", model, "--data", text(), "--kv-quant", "config"}, 1, "kv_config.json");
  expect_failure({"perplexity", model, "--data", text(), "--kv-quant", "3"}, 2, "--kv-quant");
  const auto off = account({}), eight = account({"--kv-quant", "8"}), four = account({"--kv-quant", "4"});
  EXPECT_EQ(off.first, "bf16");
  EXPECT_EQ(eight.first, "8 bit");
  EXPECT_EQ(four.first, "4 bit");
  EXPECT_EQ(account({"--kv-quant", "off"}), off);
  EXPECT_LT(four.second, eight.second);
  EXPECT_LT(eight.second, off.second);
  const double exact = loss({}), rounded = loss({"--kv-quant", "8"}), coarse = loss({"--kv-quant", "4"});
  EXPECT_NE(rounded, exact);
  EXPECT_NE(coarse, rounded);

  folder.write("model/kv_config.json", R"([{"layer_idx": 0, "bits": 8, "group_size": 64}])");
  EXPECT_EQ(account({}).first, "8 bit, bf16") << "followed when nothing is said";
  EXPECT_EQ(account({"--kv-quant", "config"}), account({}));
  EXPECT_EQ(account({"--kv-quant", "off"}), off);
  EXPECT_EQ(account({"--kv-quant", "4"}), four);
  EXPECT_EQ(loss({"--kv-quant", "config"}), loss({}));
  EXPECT_EQ(loss({"--kv-quant", "off"}), exact);
  EXPECT_EQ(loss({"--kv-quant", "8"}), rounded);
  EXPECT_NE(loss({}), exact);
  folder.write("model/kv_config.json", R"([{"layer_idx": 0, "bits": 5}])");
  expect_failure({"perplexity", model, "--data", text()}, 1, "kv_config.json");
  expect_failure({"generate", model, "x", "--kv-quant", "config"}, 1, "kv_config.json");
}

}  // namespace
}  // namespace rafter::cli

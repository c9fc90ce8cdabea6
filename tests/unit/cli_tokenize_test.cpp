// `rafter tokenize` and `rafter detokenize` from outside.
#include <nlohmann/json.hpp>

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

class CliTokenize : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    std::filesystem::create_directory(*folder_ / "llama");
    llama_ = testing::write_synth_model("llama3-tiny", "bf16", *folder_ / "llama");
    gguf_ = testing::write_synth_model("qwen3-tiny", "q4_0", folder_->path());
  }
  static void TearDownTestSuite() { delete folder_; }

  static json tokens_of(const std::string& model, std::vector<std::string> arguments,
                        const std::string& input = "") {
    arguments.insert(arguments.begin(), {"tokenize", "--model", model, "--json"});
    const ProgramResult result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.out, nullptr, false);
  }

  static testing::TempFolder* folder_;
  static std::string llama_, gguf_;
};

testing::TempFolder* CliTokenize::folder_ = nullptr;
std::string CliTokenize::llama_, CliTokenize::gguf_;

TEST_F(CliTokenize, PrintsIdsAndPieces) {
  const json with = tokens_of(llama_, {"a b"});
  EXPECT_EQ(with["tokens"].size(), 4u);  // the beginning-of-text token and three bytes
  EXPECT_EQ(with["pieces"][0], "<|begin_of_text|>");
  EXPECT_EQ(with["pieces"][2], "Ġ");
  const json without = tokens_of(llama_, {"a b", "--no-special"});
  EXPECT_EQ(without["tokens"].size(), 3u);
  EXPECT_EQ(tokens_of(llama_, {"-", "--no-special"}, "a b"), without);
  EXPECT_EQ(tokens_of(llama_ + "/tokenizer.json", {"a b"}), with);
  EXPECT_EQ(tokens_of(gguf_, {"a b"})["tokens"].size(), 3u);
  const ProgramResult table = run_program({"tokenize", "--model", llama_, "a\nb", "--no-special"});
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 3) << table.out;
}

TEST_F(CliTokenize, AFolderWithNothingButATokenizerIsEnough) {
  testing::TempFolder alone;
  std::filesystem::copy(llama_ + "/tokenizer.json", alone / "tokenizer.json");
  EXPECT_EQ(tokens_of(alone.path(), {"xyz"}), tokens_of(llama_, {"xyz"}));
}

TEST_F(CliTokenize, DetokenizeIsTheReverse) {
  const std::string text = "Zoë said: 2 + 2 = 4 😀\n";
  for (const std::string& model : {llama_, gguf_}) {
    const json tokens = tokens_of(model, {"-", "--no-special"}, text);
    EXPECT_EQ(run_program({"detokenize", "--model", model, "-"}, tokens.dump()).out, text);
    EXPECT_EQ(run_program({"detokenize", "--model", model, tokens["tokens"].dump()}).out, text);
    const ProgramResult object =
        run_program({"detokenize", "--model", model, "--json", tokens["tokens"].dump()});
    EXPECT_EQ(json::parse(object.out)["text"], text);
  }
  const std::string around = tokens_of(llama_, {"x"})["tokens"].dump();
  EXPECT_EQ(run_program({"detokenize", "--model", llama_, around}).out, "<|begin_of_text|>x\n");
  EXPECT_EQ(run_program({"detokenize", "--model", llama_, around, "--skip-special"}).out, "x\n");
}

TEST_F(CliTokenize, MistakesAreNamed) {
  const auto expect_failure = [](const std::vector<std::string>& arguments, int exit_code,
                                 const std::string& text) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    EXPECT_NE(result.error.find(text), std::string::npos) << result.error;
    EXPECT_EQ(result.out, "");
  };
  expect_failure({"detokenize", "--model", llama_, "1 two"}, 2, "two");
  expect_failure({"detokenize", "--model", llama_, "-1"}, 2, "");
  expect_failure({"detokenize", "--model", llama_, "99999999"}, 2, "99999999");
  expect_failure({"tokenize", "--model", llama_}, 2, "text");
  expect_failure({"tokenize", "text"}, 2, "--model");
  testing::TempFolder broken;
  broken.write("tokenizer.json", "{\"model\": {\"type\": \"BPE\"}}");
  expect_failure({"tokenize", "--model", broken.path(), "x"}, 1, "model.merges");
}

}  // namespace
}  // namespace rafter::cli

// rafter render, from outside.
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/jinja_vectors.h"
#include "tests/support/run_program.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

using testing::ProgramResult;
using testing::run_program;
using testing::TempFolder;

class CliRender : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  void expect_failure(const std::vector<std::string>& arguments, int exit_code, const std::string& text) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    EXPECT_NE(result.error.find(text), std::string::npos) << result.error;
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_EQ(result.out, "");
  }

  TempFolder folder_;
};

const char* const kInput =
    R"({"messages": [{"role": "user", "content": "hé\u0007"}], "bos_token": "<s>", "n": 1.0})";

TEST_F(CliRender, PrintsTheRenderByteForByte) {
  const std::string source = write(
      "t.jinja", "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{{ n }}");
  const std::string expected = "<s>[user] h\u00e9\a\n1.0";
  const ProgramResult result = run_program({"render", "--template", source, write("in.json", kInput)});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, expected);
  EXPECT_EQ(run_program({"render", "--template", source, "-"}, kInput).out, expected);
  EXPECT_EQ(
      run_program({"render", "--template", "-", write("in.json", kInput)}, "{{ messages[0].role }}").out,
      "user");
}

TEST_F(CliRender, RendersAModelsTemplateWithItsTokens) {
  std::filesystem::create_directory(folder_ / "llama");
  const std::string model = testing::write_synth_model("llama3-tiny", "bf16", folder_ / "llama");
  write("llama/chat_template.jinja",
        "{{ bos_token }}|{{ eos_token }}|{{ messages | length }}|{{ tools is defined }}");
  const auto render = [&](const std::string& input) {
    const ProgramResult result = run_program({"render", "--model", model, "-"}, input);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.out;
  };
  const std::string own = render(R"({"messages": [1]})");
  EXPECT_TRUE(own.ends_with("|1|False")) << own;
  EXPECT_FALSE(own.starts_with("|")) << own;  // the checkpoint's own token
  EXPECT_TRUE(render(R"({"messages": [], "bos_token": "<s>", "tools": []})").starts_with("<s>|"));
}

TEST_F(CliRender, ChoosesAmongNamedTemplates) {
  std::filesystem::create_directory(folder_ / "llama");
  const std::string model = testing::write_synth_model("llama3-tiny", "bf16", folder_ / "llama");
  write(
      "llama/tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  const std::string plain = write("plain.json", "{}"), tools = write("tools.json", R"({"tools": [{}]})");
  EXPECT_EQ(run_program({"render", "--model", model, plain}).out, "d");
  EXPECT_EQ(run_program({"render", "--model", model, tools}).out, "t");
  EXPECT_EQ(run_program({"render", "--model", model, "--template-name", "default", tools}).out, "d");
  expect_failure({"render", "--model", model, "--template-name", "rag", plain}, 2,
                 "it has default, tool_use");
  expect_failure({"render", "--template", plain, "--template-name", "rag", plain}, 2, "--model");
}

TEST_F(CliRender, SaysWhatIsWrong) {
  const std::string good = write("t.jinja", "{{ messages[0].content }}"), input = write("in.json", kInput);
  expect_failure({"render", "--template", good}, 2, "input");
  expect_failure({"render", input}, 2, "--template");
  expect_failure({"render", "--template", good, "--model", "x", input}, 2, "template");
  expect_failure({"render", "--template", good, folder_ / "none.json"}, 1, "none.json");
  expect_failure({"render", "--template", folder_ / "none.jinja", input}, 1, "none.jinja");
  expect_failure({"render", "--template", folder_.path(), input}, 1, "directory");
  expect_failure({"render", "--template", good, write("bad.json", "{\"messages\": ")}, 1, "JSON");
  expect_failure({"render", "--template", good, write("list.json", "[]")}, 2, "object");
  expect_failure({"render", "--template", write("bad.jinja", "a\n{% if x %}"), input}, 1, "bad.jinja:2");
  expect_failure({"render", "--template", write("no.jinja", "\n{{ raise_exception('No critics.') }}"), input},
                 2, "No critics.");
  expect_failure({"render", "--template",
                  write("slow.jinja",
                        "{% for i in range(99999) %}{% for j in range(99999) %}"
                        "{% endfor %}{% endfor %}"),
                  input},
                 1, "too long");
}

TEST_F(CliRender, HasHelp) {
  const ProgramResult help = run_program({"help", "render"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--template"), std::string::npos);
  EXPECT_NE(help.out.find("Examples:\n  rafter render"), std::string::npos);
}

// The publishers' templates through the program: the same bytes as the engine, which the oracle judges.
TEST_F(CliRender, RendersThePublishersTemplates) {
  if (testing::chat_template_folder().empty())
    GTEST_SKIP() << "the publishers' chat templates are not beside the source";
  const auto file = nlohmann::ordered_json::parse(testing::read_file(testing::jinja_data("real.json")));
  const auto inputs = testing::real_inputs(file);
  for (const char* name : {"Qwen3.5-4B.jinja", "google-gemma-4-31B-it.jinja"}) {
    for (size_t i = 0; i < 4; ++i) {
      const ProgramResult result = run_program(
          {"render", "--template", testing::chat_template_folder() / name, "-"}, inputs[i].second);
      EXPECT_EQ(result.exit_code, 0) << result.error;
      EXPECT_EQ(testing::length_and_hash(result.out), file.at("templates").at(name).at(i).get<std::string>())
          << inputs[i].first;
    }
  }
}

}  // namespace
}  // namespace rafter::cli

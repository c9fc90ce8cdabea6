// The program from outside: every verb, its output, its exit codes.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

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
using testing::TerminalProgram;

// The models of all tests, written once; a cache folder per test.
class Cli : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempFolder;
    std::filesystem::create_directory(*models_ / "llama");
    llama_ = new std::string(testing::write_synth_model("llama3-tiny", "bf16", *models_ / "llama"));
    gguf_ = new std::string(testing::write_synth_model("qwen3-tiny", "q4_0", models_->path()));
  }
  static void TearDownTestSuite() {
    delete models_;
    delete llama_;
    delete gguf_;
  }
  static const std::string& llama() { return *llama_; }
  static const std::string& gguf() { return *gguf_; }

  // `rafter generate MODEL PROMPT … --json`
  static json generate(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), "generate");
    arguments.push_back("--json");
    const ProgramResult result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.out, nullptr, false);
  }

  static void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                             const std::string& text) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    EXPECT_TRUE(result.error.starts_with("rafter: ")) << result.error;
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_NE(result.error.find(text), std::string::npos) << result.error;
    EXPECT_EQ(result.out, "");
  }

  TempFolder cache_;
  ScopedVariable cache_home_{"XDG_CACHE_HOME", cache_.path().c_str()};
  ScopedVariable no_hub_{"HF_HUB_CACHE", (cache_ / "hub").c_str()};

 private:
  static inline TempFolder* models_;
  static inline std::string *llama_, *gguf_;
};

TEST_F(Cli, AnswersObeyASchema) {
  const std::string schema = cache_ / "schema.json";
  std::ofstream(schema) << R"({"type":"object","properties":{"a":{"enum":["yes","no"]}},"required":["a"]})";
  for (const char* seed : {"1", "2", "3"}) {
    const json result =
        generate({llama(), "x", "--json-schema", schema, "--seed", seed, "--max-tokens", "200"});
    ASSERT_EQ(result["finish_reason"], "stop") << result;
    const json answer = json::parse(result["text"].get<std::string>(), nullptr, false);
    EXPECT_TRUE(answer == json({{"a", "yes"}}) || answer == json({{"a", "no"}})) << result;
  }
  std::ofstream(schema) << R"({"properties":{"a":{"not":{}}}})";
  expect_failure({"generate", llama(), "x", "--json-schema", schema}, 1, "#/properties/a/not");
  expect_failure({"generate", llama(), "x", "--json-schema", schema, "--json-object"}, 2, "--json-object");
  expect_failure({"generate", llama(), "-", "--json-schema", "-"}, 2, "standard input");
}

TEST_F(Cli, VersionAndHelp) {
  const ProgramResult version = run_program({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("rafter 0.")) << version.out;
  EXPECT_NE(run_program({"help"}).out.find("generate"), std::string::npos);
  for (const char* verb : {"generate", "chat", "models", "scan", "add", "plan", "synth"}) {
    const ProgramResult help = run_program({"help", verb});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.out.find("Examples:\n  rafter"), std::string::npos) << help.out;
    EXPECT_EQ(run_program({verb, "--help"}).out, help.out);
  }
  EXPECT_NE(run_program({"help", "environment"}).out.find("RAFTER_ISA"), std::string::npos);
  EXPECT_EQ(run_program({}).exit_code, 2);
}

TEST_F(Cli, UsageErrorsNameTheClosestWord) {
  expect_failure({"genrate"}, 2, "\"generate\"");
  expect_failure({"help", "sacn"}, 2, "\"scan\"");
  expect_failure({"generate", llama(), "x", "--temprature", "1"}, 2, "\"--temperature\"");
  expect_failure({"generate", llama(), "x", "--temprature=1"}, 2, "\"--temperature\"");
  expect_failure({"generate", llama(), "x", "--top-k", "many"}, 2, "top-k");
  expect_failure({"generate"}, 2, "model");
  expect_failure({"generate", llama(), "x", "--threads", "0"}, 2, "threads");
  expect_failure({"generate", llama(), "x", "--executor", "gpu"}, 2, "executor");
  expect_failure({"generate", llama(), "x", "--top-p", "1.5"}, 2, "top_p");
  expect_failure({"generate", llama(), "x", "--logit-bias", "12"}, 2, "--logit-bias");
  expect_failure({"generate", llama(), "x", "--logit-bias", "512=1"}, 2, "512");
  expect_failure({"generate", llama(), "x", "--raw", "--system", "s"}, 2, "--system");
  expect_failure({"generate", llama(), "x", "--max-tokens", "0"}, 2, "max_tokens");
  expect_failure({"generate", llama(), "x", "--raw", "--logit-bias", "1=nan"}, 2, "logit_bias");
}

TEST_F(Cli, WhatIsNoFileIsSaidToBeNone) {
  ASSERT_EQ(::mkfifo((cache_ / "pipe.gguf").c_str(), 0600), 0);
  expect_failure({"generate", cache_ / "pipe.gguf", "x"}, 2, "neither a file nor a folder");
  expect_failure({"chat", cache_ / "pipe.gguf"}, 2, "neither a file nor a folder");
  expect_failure({"plan", cache_ / "pipe.gguf"}, 2, "neither a file nor a folder");
  expect_failure({"plan", "/dev/null"}, 2, "neither a file nor a folder");
}

TEST_F(Cli, IntegersOutOfRangeAreNotBent) {
  for (const char* seed : {"-1", "18446744073709551616", "99999999999999999999999"}) {
    expect_failure({"generate", llama(), "x", "--seed", seed}, 2, seed);
    expect_failure({"synth", "llama3-tiny", "--format", "bf16", "--out", cache_ / "new", "--seed", seed}, 2,
                   seed);
  }
  expect_failure({"generate", llama(), "x", "--max-tokens", "9223372036854775808"}, 2, "9223372036854775808");
  // The largest one that an int64 holds is refused for the context, in numbers that did not wrap round.
  expect_failure({"generate", llama(), "x", "--max-tokens", "9223372036854775807"}, 3,
                 " need 92233720368547758");
  EXPECT_EQ(generate({llama(), "x", "--max-tokens", "1", "--seed", "18446744073709551615"})["seed"],
            18446744073709551615u);
}

TEST_F(Cli, AnEmptyPromptIsRefused) {
  expect_failure({"generate", llama()}, 2, "the prompt is empty");  // nothing on standard input
  expect_failure({"generate", llama(), ""}, 2, "the prompt is empty");
  expect_failure({"generate", llama(), "", "--raw"}, 2, "the prompt is empty");
  const ProgramResult newline = run_program({"generate", llama(), "-"}, "\n");
  EXPECT_EQ(newline.exit_code, 2);
}

// Names and files may hold anything; a message stays one line and does not steer the terminal.
TEST_F(Cli, MessagesAreOneLineWhateverTheyQuote) {
  const std::string hostile = "a\x1b[31m\nb";
  const auto check = [](const ProgramResult& result) {
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_EQ(result.error.find('\x1b'), std::string::npos) << result.error;
  };
  check(run_program({hostile}));
  check(run_program({"generate", cache_ / hostile, "x"}));
  cache_.write("other/config.json", R"({"model_type": "x\n\u001b[31m"})");
  std::filesystem::copy(llama() + "/model.safetensors", cache_ / "other/model.safetensors");
  check(run_program({"generate", cache_ / "other", "x"}));
  std::filesystem::create_directory_symlink(llama(), cache_ / hostile);
  std::filesystem::copy(llama(), cache_ / ("copy " + hostile));
  const ProgramResult plan = run_program({"plan", cache_ / ("copy " + hostile)});
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_EQ(plan.out.find('\x1b'), std::string::npos) << plan.out;
  const ProgramResult scan = run_program({"scan", cache_ / ("copy " + hostile)});
  EXPECT_EQ(std::count(scan.out.begin(), scan.out.end(), '\n'), 3) << scan.out;
  EXPECT_EQ(scan.out.find('\x1b'), std::string::npos) << scan.out;
}

// `redirection` as the shell has it.
ProgramResult run_in_shell(const std::string& arguments, const std::string& redirection) {
  ProgramResult result;
  const std::string command =
      "{ " RAFTER_PROGRAM " " + arguments + " " + redirection + "; } 2>&1; echo rc=$?";
  FILE* shell = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), shell)) result.out.append(buffer, count);
  ::pclose(shell);
  return result;
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAnError) {
  const std::string model = llama();
  for (const std::string& arguments :
       {"generate " + model + " x --max-tokens 2", "generate " + model + " x --max-tokens 2 --json",
        "plan " + model, std::string("models --json"), std::string("help"), std::string("version")}) {
    for (const char* redirection : {">/dev/full", ">&-"}) {
      const ProgramResult result = run_in_shell(arguments, redirection);
      EXPECT_TRUE(result.out.starts_with(std::string("rafter: standard output: ") +
                                         (redirection[1] == '&' ? "Bad file" : "No space left")))
          << arguments << result.out;
      EXPECT_TRUE(result.out.ends_with("\nrc=1\n")) << arguments << result.out;
    }
  }
  // The first text that cannot be written ends the answer: this one would fill the context.
  const ProgramResult endless = run_in_shell("generate " + model + " x --logit-bias 65=1000", ">/dev/full");
  EXPECT_TRUE(endless.out.ends_with("\nrc=1\n")) << endless.out;
}

#if defined(__has_feature)  // clang, which the sanitizer presets use
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// Runs the program under a limit of the shell's; its output, errors and "rc=N".
std::string run_limited(const std::string& limit, const std::string& arguments) {
  const std::string command = "ulimit " + limit + "; exec " RAFTER_PROGRAM " " + arguments;
  FILE* shell = ::popen(("(" + command + ") 2>&1; echo rc=$?").c_str(), "r");
  std::string out;
  for (int c; (c = std::fgetc(shell)) != EOF;) out.push_back(static_cast<char>(c));
  ::pclose(shell);
  return out;
}

// Limits of the system are errors like any other, and leave nothing behind.
TEST_F(Cli, ALimitOfFileSizeIsAnError) {
  const std::string out =
      run_limited("-f 100", "synth llama3-tiny --format bf16 --out " + (cache_ / "large"));
  EXPECT_TRUE(out.starts_with("rafter: ")) << out;
  EXPECT_TRUE(out.ends_with("\nrc=1\n")) << out;
  EXPECT_FALSE(std::filesystem::exists(cache_ / "large/model.safetensors"));
}

TEST_F(Cli, ALimitOfMemoryIsAnError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow memory needs more addresses than the limit leaves";
  // 8 MiB of stack for each of them.
  const std::string out = run_limited("-v 1000000", "generate " + llama() + " x --threads 1024");
  EXPECT_TRUE(out.starts_with("rafter: threads: cannot start 1024 ")) << out;
  EXPECT_TRUE(out.ends_with("\nrc=3\n")) << out;
}

// The number of a closed stream must not go to a file of ours: chat would read the weights as questions, and
// output would be written into the registry.
TEST_F(Cli, ClosedStandardStreamsStayClosed) {
  const ProgramResult chat = run_in_shell("chat " + llama() + " --max-tokens 2", "<&-");
  EXPECT_EQ(chat.out, "rafter: standard input: Bad file descriptor\nrc=1\n");
  ASSERT_EQ(run_program({"add", "mine", llama()}).exit_code, 0);
  for (int i = 0; i < 3; ++i) (void)run_in_shell("models --json", "<&- >&- 2>&-");
  EXPECT_NE(run_program({"models"}).out.find("mine"), std::string::npos);
  EXPECT_NE(run_in_shell("chat " + llama(), "</").out.find("standard input: Is a directory\nrc=1\n"),
            std::string::npos);
}

TEST_F(Cli, AModelCutShortWhileInUseIsAnError) {
  std::filesystem::copy(llama(), cache_ / "cut");
  TerminalProgram chat({"chat", cache_ / "cut", "--logit-bias", "66=1000", "--max-tokens", "3"});
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  std::filesystem::resize_file(cache_ / "cut/model.safetensors", 10000);
  chat.type("go on\r");
  ASSERT_TRUE(chat.wait_for("rafter: ")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("model.safetensors")) << chat.screen();
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
}

TEST_F(Cli, GroupSizesOfAHostileConfigAreScanned) {
  const std::string model = testing::write_synth_model("llama3-tiny", "mlx4", cache_.path());
  json config = json::parse(testing::read_file(model + "/config.json"));
  for (const char* key : {"quantization", "quantization_config"}) {
    for (const char* type : {"llama", "other"}) {
      json hostile = config;
      hostile.erase("quantization"), hostile.erase("quantization_config");
      hostile["model_type"] = type;
      hostile[key] = {{"bits", 4}, {"group_size", int64_t{1} << 62}};  // four groups of it are 2⁶⁴
      std::ofstream(model + "/config.json") << hostile;
      const ProgramResult scan = run_program({"scan", model, "--json"});
      ASSERT_EQ(scan.exit_code, 0) << scan.error;
      EXPECT_FALSE(json::parse(scan.out)[0]["supported"].get<bool>());
    }
  }
}

TEST_F(Cli, GeneratePrintsAllItsFigures) {
  const json result = generate({llama(), "Hello", "--max-tokens", "5", "--seed", "9"});
  ASSERT_TRUE(result.is_object());
  for (const char* key : {"text", "tokens", "prompt_tokens", "completion_tokens", "prefill_tps", "decode_tps",
                          "logits_hash", "finish_reason", "seed", "model"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result["tokens"].size(), 5u);
  EXPECT_EQ(result["completion_tokens"], 5);
  EXPECT_EQ(result["finish_reason"], "length");
  EXPECT_EQ(result["seed"], 9);
  EXPECT_EQ(result["model"], "llama");
  EXPECT_EQ(result["logits_hash"].get<std::string>().size(), 16u);
}

TEST_F(Cli, AnAnswerDependsOnNeitherThreadsNorChunksNorTheWayOfAsking) {
  for (const std::string& model : {llama(), gguf()}) {
    const std::vector<std::string> common = {"--max-tokens", "12", "--temperature", "0.9", "--seed", "4"};
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), common.begin(), common.end());
      return arguments;
    };
    const std::string prompt = "Tell me about tides & currents, Zoë!";
    const json first = generate(with({model, prompt, "--threads", "1"}));
    const std::vector<json> others = {generate(with({model, prompt, "--threads", "2"})),
                                      generate(with({model, prompt, "--prefill-chunk", "3"})),
                                      generate(with({model, "-"}), prompt + "\n"),
                                      generate(with({model}), prompt)};
    for (const json& other : others) {
      EXPECT_EQ(other["tokens"], first["tokens"]);
      EXPECT_EQ(other["logits_hash"], first["logits_hash"]);
      EXPECT_EQ(other["prompt_tokens"], first["prompt_tokens"]);
    }
    auto plain = with({"generate", model, prompt});
    std::string text = first["text"];
    EXPECT_EQ(run_program(plain).out, text.ends_with('\n') ? text : text + "\n");
    EXPECT_EQ(run_program(plain).error, "");
    plain.push_back("--verbose");
    EXPECT_NE(run_program(plain).error.find("answer 12 tokens"), std::string::npos);
  }
}

TEST_F(Cli, RawPromptsAndSystemMessages) {
  const std::vector<std::string> rest = {"--max-tokens", "1", "--temperature", "0"};
  const auto tokens_of = [&](std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return generate(arguments, input)["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(tokens_of({llama(), "abc", "--raw"}), 4);   // BOS and three bytes
  EXPECT_EQ(tokens_of({gguf(), "abc", "--raw"}), 3);    // no BOS in Qwen
  EXPECT_EQ(tokens_of({gguf(), "--raw"}, "abc\n"), 4);  // raw text keeps its newline
  const int chat = tokens_of({llama(), "abc"});
  EXPECT_EQ(tokens_of({llama()}, "abc\n"), chat);
  EXPECT_EQ(tokens_of({llama(), "abc", "--system", "xyz"}),
            chat + 14);                                     // three markers, "system", two newlines, "xyz"
  EXPECT_EQ(tokens_of({llama(), "<|eot_id|>"}), chat + 7);  // a marker spelt out by the user stays text
}

TEST_F(Cli, SamplingFlagsReachTheSampler) {
  const json forced = generate({llama(), "x", "--max-tokens", "4", "--logit-bias", "65=1000"});
  EXPECT_EQ(forced["tokens"], json({65, 65, 65, 65}));
  EXPECT_EQ(forced["text"], "AAAA");
  const json stopped = generate(
      {llama(), "x", "--max-tokens", "50", "--logit-bias", "65=1000", "--stop", "zz", "--stop", "AAA"});
  EXPECT_EQ(stopped["text"], "");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["tokens"].size(), 3u);
  const json ended = generate({llama(), "x", "--logit-bias", "489=1000"});
  EXPECT_EQ(ended["finish_reason"], "stop");
  EXPECT_EQ(ended["tokens"], json({489}));
  EXPECT_EQ(ended["text"], "");
  EXPECT_NE(generate({llama(), "x", "--max-tokens", "1"})["seed"],
            generate({llama(), "x", "--max-tokens", "1"})["seed"]);
}

TEST_F(Cli, TheReferenceExecutorAgrees) {
  const std::vector<std::string> rest = {"--max-tokens", "4", "--temperature", "0", "--precise"};
  std::vector<std::string> fast = {llama(), "abc"}, slow = {llama(), "abc", "--executor", "reference"};
  fast.insert(fast.end(), rest.begin(), rest.end());
  slow.insert(slow.end(), rest.begin(), rest.end());
  EXPECT_EQ(generate(fast)["tokens"], generate(slow)["tokens"]);
}

TEST_F(Cli, TheContextLimitIsRefusedWithItsNumbers) {
  expect_failure({"generate", llama(), "x", "--max-tokens", "5000"}, 3, "the context limit is 4096");
  expect_failure({"generate", llama(), std::string(5000, 'x')}, 3, "4096");
  expect_failure({"generate", llama(), "x", "--max-tokens", "60", "--ctx", "64"}, 3, "64");
  expect_failure({"generate", llama(), "x", "--ctx", "100000"}, 2, "4096");
  const json filled = generate({llama(), "x", "--ctx", "64", "--logit-bias", "65=1000"});
  EXPECT_EQ(filled["prompt_tokens"].get<int>() + filled["completion_tokens"].get<int>(), 64);
  EXPECT_EQ(filled["finish_reason"], "length");
}

TEST_F(Cli, ModelsThatAreNotThereOrBroken) {
  expect_failure({"generate", "nothing-like-it", "x"}, 1, "rafter scan");
  expect_failure({"generate", "/no/such/file.gguf", "x"}, 1, "/no/such/file.gguf");
  const std::string junk = cache_.write("junk.gguf", std::string(100, 'j'));
  expect_failure({"generate", junk, "x"}, 1, "junk.gguf");
  cache_.write("other/config.json", R"({"model_type": "mamba"})");
  std::filesystem::copy(llama() + "/model.safetensors", cache_ / "other/model.safetensors");
  expect_failure({"generate", cache_ / "other", "x"}, 1, "mamba");
}

TEST_F(Cli, CtrlCEndsAnAnswerInOrder) {
  const ProgramResult result =
      run_program({"generate", llama(), "x", "--logit-bias", "65=1000", "--threads", "1"}, "", 40);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_GE(result.out.size(), 40u);
  EXPECT_LT(result.out.size(), 4000u);
  EXPECT_EQ(result.out.find_first_not_of("A\n"), std::string::npos);
  EXPECT_EQ(result.error, "rafter: interrupted\n");
}

TEST_F(Cli, ModelsAreScannedNamedAndFound) {
  EXPECT_NE(run_program({"models"}).out.find("no models"), std::string::npos);
  EXPECT_EQ(run_program({"scan"}).out, "registered 0 models\n");
  std::filesystem::create_directories(cache_ / "rafter/models/deep");
  std::filesystem::copy(gguf(), cache_ / "rafter/models/deep/own-Q4_0.gguf");
  cache_.write("rafter/models/broken.gguf", "junk");
  const ProgramResult scan = run_program({"scan"});
  EXPECT_EQ(scan.exit_code, 0);
  EXPECT_NE(scan.out.find("registered 1 model\n"), std::string::npos) << scan.out;
  EXPECT_NE(scan.error.find("broken.gguf"), std::string::npos) << scan.error;

  EXPECT_EQ(run_program({"add", "mine", llama()}).exit_code, 0);
  EXPECT_EQ(run_program({"scan", "--name", "mine too", llama()}).exit_code, 0);
  const json models = json::parse(run_program({"models", "--json"}).out);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0]["aliases"], json({"mine", "mine too"}));
  EXPECT_EQ(models[0]["architecture"], "llama");
  EXPECT_EQ(models[0]["quantization"], "bf16");
  EXPECT_EQ(models[0]["parameters"], 2524928);
  EXPECT_EQ(models[1]["name"], "own-Q4_0");
  EXPECT_EQ(models[1]["quantization"], "q4_0");
  EXPECT_EQ(models[1]["container"], "gguf");

  EXPECT_EQ(generate({"MINE too", "x", "--max-tokens", "1"})["model"], "mine");
  EXPECT_EQ(generate({"own", "x", "--max-tokens", "1"})["model"], "own-Q4_0");
  std::filesystem::copy(gguf(), cache_ / "rafter/models/own-copy.gguf");
  run_program({"scan"});
  expect_failure({"generate", "own", "x"}, 2, "own-Q4_0, own-copy");
  std::filesystem::remove_all(cache_ / "rafter/models");
  expect_failure({"generate", "own-copy", "x"}, 1, "own-copy");
  EXPECT_EQ(json::parse(run_program({"models", "--json"}).out).size(), 1u);
  expect_failure({"add", "x", cache_ / "nowhere"}, 1, "nowhere");
  expect_failure({"add", "x", cache_.path()}, 1, "no model here");
  expect_failure({"add", "a/b", llama()}, 2, "a/b");
}

TEST_F(Cli, PlanListsTheSteps) {
  const json fused = json::parse(run_program({"plan", llama(), "--json"}).out);
  const json unfused = json::parse(run_program({"plan", llama(), "--unfused", "--rows", "5", "--json"}).out);
  EXPECT_LT(fused["steps"].size(), unfused["steps"].size());
  EXPECT_EQ(unfused["capacity"], 8);
  int64_t bytes = 0;
  for (const json& step : fused["steps"]) bytes += step["weight_bytes"].get<int64_t>();
  EXPECT_GT(bytes, 4'500'000);  // all 5.05 MB but the embedding, of which a row is read
  EXPECT_LT(bytes, 5'053'056);
  const ProgramResult text = run_program({"plan", llama()});
  EXPECT_NE(text.out.find("q_proj"), std::string::npos) << text.out;
}

TEST_F(Cli, SynthWritesAndDoesNotOverwrite) {
  const std::string out = cache_ / "made";
  const auto synth = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"synth", "qwen3-tiny", "--format", "mlx4", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  EXPECT_EQ(run_program(synth({})).exit_code, 0);
  const json first = generate({out, "x", "--max-tokens", "3", "--temperature", "0"});
  expect_failure(synth({}), 1, "--force");
  cache_.write("made/model-00001-of-00002.safetensors", "left over");
  EXPECT_EQ(run_program(synth({"--force"})).exit_code, 0);
  EXPECT_EQ(generate({out, "x", "--max-tokens", "3", "--temperature", "0"})["logits_hash"],
            first["logits_hash"]);
  EXPECT_EQ(run_program(synth({"--force", "--seed", "1"})).exit_code, 0);
  EXPECT_NE(generate({out, "x", "--max-tokens", "3", "--temperature", "0"})["logits_hash"],
            first["logits_hash"]);
  expect_failure({"synth", "gpt2", "--format", "mlx4", "--out", out}, 2, "llama3-tiny");
  expect_failure({"synth", "qwen3-tiny", "--format", "mlx5", "--out", out}, 2, "mlx-mixed");
  expect_failure({"synth", "qwen3-tiny", "--format", "mlx4", "--out", "/proc/none"}, 1, "/proc/none");
}

TEST_F(Cli, ChatThroughAPipe) {
  const ProgramResult chat =
      run_program({"chat", llama(), "--logit-bias", "66=1000", "--max-tokens", "3"},
                  "Hello\n/stats\n\n//slash\nAgain, é\n/stats\n/nonsense\n/system\n/system Be brief.\n"
                  "/system\n/help\nfresh\n/stats\n/exit\nnever asked\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.error;
  std::vector<std::string> lines;
  std::istringstream stream(chat.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_GT(lines.size(), 18u) << chat.out;
  EXPECT_EQ(lines[0], "BBB");
  EXPECT_NE(lines[1].find(" 0 reused"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[4], "BBB");
  EXPECT_EQ(lines[5], "BBB");
  EXPECT_EQ(lines[6].find(" 0 reused"), std::string::npos) << lines[6];
  EXPECT_NE(lines[7].find("all 3 turns"), std::string::npos) << lines[7];
  EXPECT_NE(lines[9].find("/nonsense is no command"), std::string::npos) << lines[9];
  EXPECT_EQ(lines[10], "There is no system message.");
  EXPECT_EQ(lines[11], "Be brief.");
  EXPECT_TRUE(lines[12].starts_with("/help"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "BBB"), 4);
  EXPECT_EQ(chat.error, "");
}

TEST_F(Cli, ChatGoesOnWhenTheContextIsFull) {
  const ProgramResult chat =
      run_program({"chat", llama(), "--ctx", "64", "--logit-bias", "66=1000", "--max-tokens", "3"},
                  "one\n" + std::string(100, 'x') + "\ntwo\n");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_EQ(chat.out, "BBB\nBBB\n");
  EXPECT_NE(chat.error.find("context limit is 64"), std::string::npos) << chat.error;
}

TEST_F(Cli, ChatOnATerminal) {
  TerminalProgram chat({"chat", llama(), "--logit-bias", "66=1000", "--threads", "1"});
  ASSERT_TRUE(chat.wait_for("/help lists commands")) << chat.screen();
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  chat.type("/help\r");
  ASSERT_TRUE(chat.wait_for("/stats ")) << chat.screen();
  chat.type(
      "é\x1b[D"
      "go on\r");  // typed, cursor moved left over the é, text put before it
  ASSERT_TRUE(chat.wait_for("BBBBBBBBBB")) << chat.screen();
  chat.type("\x03");  // Ctrl-C stops the answer and not the program
  ASSERT_TRUE(chat.wait_for("[stopped]")) << chat.screen();
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  chat.type("/stats\r");
  ASSERT_TRUE(chat.wait_for("cancelled")) << chat.screen();
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  chat.type("half a line");
  ASSERT_TRUE(chat.wait_for("half a line")) << chat.screen();
  chat.type("\x03");  // takes the line back
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  chat.type("\x03");
  ASSERT_TRUE(chat.wait_for("leaves")) << chat.screen();
  ASSERT_TRUE(chat.wait_for_prompt("> ")) << chat.screen();
  chat.type("\x03");
  EXPECT_EQ(chat.wait_for_exit(), 0) << chat.screen();
  const std::string history = testing::read_file(cache_ / "rafter/chat_history");
  EXPECT_NE(history.find("go\\040oné"), std::string::npos) << history;
  EXPECT_EQ(std::filesystem::status(cache_ / "rafter/chat_history").permissions() &
                std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

TEST_F(Cli, CtrlDLeavesTheChat) {
  TerminalProgram chat({"chat", llama()});
  ASSERT_TRUE(chat.wait_for_prompt("> "));
  chat.type("\x04");
  EXPECT_EQ(chat.wait_for_exit(), 0) << chat.screen();
}

TEST_F(Cli, CtrlDDuringAnAnswerLeavesAfterIt) {
  TerminalProgram chat({"chat", llama(), "--logit-bias", "66=1000", "--threads", "1", "--max-tokens", "500"});
  ASSERT_TRUE(chat.wait_for_prompt("> "));
  chat.type("go\r");
  ASSERT_TRUE(chat.wait_for("BBB")) << chat.screen();
  chat.type("\x04");
  EXPECT_EQ(chat.wait_for_exit(), 0) << chat.screen();
}

}  // namespace
}  // namespace rafter::cli

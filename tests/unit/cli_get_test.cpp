// `rafter get`, `models` and `gc` from outside, against a server that speaks the hub's protocol; and the
// hub's own Python tool as a peer on the same cache.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "tests/support/hub_server.h"
#include "tests/support/run_program.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/synth_model.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HubFault;
using testing::HubFile;
using testing::HubRequest;
using testing::HubServer;
using testing::ProgramResult;
using testing::run_program;
using testing::ScopedVariable;
using testing::TempFolder;

constexpr const char* kCommit = "89abcdef0123456789abcdef0123456789abcdef";

std::vector<HubFile> files_of(const fs::path& folder) {
  std::vector<HubFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    files.push_back({name, *base::read_text_file(entry.path().string()), !name.ends_with(".json")});
  }
  return files;
}

class CliGet : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempFolder;
    fs::create_directory(*models_ / "llama");
    const std::string llama = testing::write_synth_model("llama3-tiny", "bf16", *models_ / "llama");
    const std::string gguf = testing::write_synth_model("qwen3-tiny", "q4_0", models_->path());
    llama_files_ = new std::vector<HubFile>(files_of(llama));
    gguf_files_ = new std::vector<HubFile>{{"tiny-Q4_0.gguf", *base::read_text_file(gguf), true},
                                           {"README.md", "# tiny", false}};
  }
  static void TearDownTestSuite() {
    delete models_;
    delete llama_files_;
    delete gguf_files_;
  }

  void SetUp() override {
    server_.add("org/llama", kCommit, *llama_files_);
    server_.add("org/tiny-GGUF", kCommit, *gguf_files_);
  }

  static json json_of(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.out, nullptr, false);
  }

  // Runs the hub's own tool; its output, or an error it printed.
  ProgramResult peer(const std::string& script) {
    const std::string python = RAFTER_SOURCE_DIR "/build/oracle/venv/bin/python";
    ProgramResult result;
    FILE* pipe = ::popen((python + " -c '" + script + "' 2>&1").c_str(), "r");
    char buffer[4096];
    for (size_t count; (count = ::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      result.out.append(buffer, count);
    result.exit_code = testing::exit_code_of_status(::pclose(pipe));
    return result;
  }
  static bool has_peer() { return fs::exists(RAFTER_SOURCE_DIR "/build/oracle/venv/bin/python"); }

  static TempFolder* models_;
  static std::vector<HubFile>*llama_files_, *gguf_files_;
  TempFolder cache_;
  HubServer server_;
  ScopedVariable xdg_{"XDG_CACHE_HOME", cache_.path().c_str()};
  ScopedVariable home_{"HF_HOME", nullptr};
  ScopedVariable hub_{"HF_HUB_CACHE", nullptr};
  ScopedVariable token_{"HF_TOKEN", nullptr};
  ScopedVariable token_path_{"HF_TOKEN_PATH", nullptr};
  ScopedVariable offline_{"HF_HUB_OFFLINE", nullptr};
  ScopedVariable endpoint_{"HF_ENDPOINT", server_.endpoint().c_str()};
};

TempFolder* CliGet::models_;
std::vector<HubFile>*CliGet::llama_files_, *CliGet::gguf_files_;

TEST_F(CliGet, FetchesRegistersAndRuns) {
  const ProgramResult got = run_program({"get", "org/llama"});
  ASSERT_EQ(got.exit_code, 0) << got.error;
  EXPECT_NE(got.out.find("rafter chat org/llama"), std::string::npos) << got.out;
  EXPECT_NE(got.error.find("model.safetensors"), std::string::npos);  // a line for each file
  const json models = json_of(run_program({"models", "--json"}));
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0]["name"], "org/llama");
  EXPECT_EQ(models[0]["revision"], kCommit);
  EXPECT_GT(models[0]["parameters"].get<int64_t>(), 0);
  EXPECT_EQ(run_program({"generate", "llama", "x", "--max-tokens", "2", "--seed", "1"}).exit_code, 0);
  const ProgramResult again = run_program({"get", "org/llama"});
  EXPECT_NE(again.out.find("already here"), std::string::npos);
  EXPECT_EQ(again.error, "");
}

TEST_F(CliGet, GgufByNameOfItsQuantisation) {
  const json got = json_of(run_program({"get", "org/tiny-GGUF:q4_0", "--name", "tiny", "--json"}));
  EXPECT_TRUE(got["path"].get<std::string>().ends_with("/tiny-Q4_0.gguf"));
  EXPECT_EQ(got["files"].size(), 1u);
  EXPECT_EQ(got["files"][0]["status"], "downloaded");
  EXPECT_EQ(got["commit"], kCommit);
  EXPECT_EQ(run_program({"generate", "tiny", "x", "--max-tokens", "2", "--seed", "1"}).exit_code, 0);
  const ScopedVariable offline("HF_HUB_OFFLINE", "1");
  const int before = static_cast<int>(server_.requests().size());
  EXPECT_EQ(json_of(run_program({"get", "org/tiny-GGUF:q4_0", "--json"}))["path"], got["path"]);
  EXPECT_EQ(static_cast<int>(server_.requests().size()), before);
  EXPECT_EQ(run_program({"get", "org/llama"}).exit_code, 1);
}

TEST_F(CliGet, Url) {
  const std::string url = server_.endpoint() + "/org/tiny-GGUF/resolve/main/tiny-Q4_0.gguf";
  const std::string sum = HubServer::sha256((*gguf_files_)[0].content);
  const ProgramResult got = run_program({"get", url, "--sha256", sum, "--name", "fromurl"});
  ASSERT_EQ(got.exit_code, 0) << got.error;
  EXPECT_TRUE(fs::exists(cache_ / "rafter/models/tiny-Q4_0.gguf"));
  EXPECT_EQ(run_program({"generate", "fromurl", "x", "--max-tokens", "2", "--seed", "1"}).exit_code, 0);
  EXPECT_EQ(run_program({"get", url, "--sha256", "12"}).exit_code, 2);
  EXPECT_EQ(run_program({"get", "org/llama", "--sha256", sum}).exit_code, 2);
}

TEST_F(CliGet, ErrorsSayWhatToDo) {
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const ProgramResult result = run_program(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(result.error.starts_with("rafter: ")) << result.error;
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_NE(result.error.find(text), std::string::npos) << result.error;
  };
  expect({"get", "org/none"}, "check the spelling");
  expect({"get", "../../etc"}, "not a repository's name");
  expect({"get", "org/llama", "--revision", "v9"}, "branches and tags");
  expect({"get", "org/tiny-GGUF:q2_k"}, "there are: tiny-Q4_0.gguf");
  expect({"get", "org/llama", "--include", "*.bin"}, "matches");
  expect({"get", "ftp://x/y.gguf"}, "names no file");
  server_.token = "hf_right";
  expect({"get", "org/llama"}, "HF_TOKEN");
  const ScopedVariable wrong("HF_TOKEN", "hf_wrong");
  const ProgramResult refused = run_program({"get", "org/llama"});
  EXPECT_EQ(refused.error.find("hf_wrong"), std::string::npos);
  const ScopedVariable nobody("HF_ENDPOINT", "http://127.0.0.1:1");
  EXPECT_NE(run_program({"get", "--help"}).out.find("org/name"), std::string::npos);
}

TEST_F(CliGet, AModelItCannotReadIsKeptAndSaid) {
  server_.add("org/odd", kCommit, {{"config.json", "{}", false}, {"model.safetensors", "not one", true}});
  const ProgramResult got = run_program({"get", "org/odd"});
  EXPECT_EQ(got.exit_code, 0);
  EXPECT_NE(got.error.find("passed over"), std::string::npos) << got.error;
}

TEST_F(CliGet, GcShowsThenRemoves) {
  ASSERT_EQ(run_program({"get", "org/llama"}).exit_code, 0);
  const std::string blobs = cache_ / "huggingface/hub/models--org--llama/blobs/";
  std::ofstream(blobs + "abc.incomplete") << std::string(5000, 'x');
  const json plan = json_of(run_program({"gc", "--grace", "0", "--json"}));
  EXPECT_FALSE(plan["applied"].get<bool>());
  EXPECT_GE(plan["bytes"].get<int64_t>(), 5000);
  EXPECT_TRUE(fs::exists(blobs + "abc.incomplete"));
  EXPECT_NE(run_program({"gc", "--grace", "0"}).out.find("rafter gc --apply"), std::string::npos);
  EXPECT_TRUE(json_of(run_program({"gc", "--grace", "0", "--apply", "--json"}))["applied"].get<bool>());
  EXPECT_FALSE(fs::exists(blobs + "abc.incomplete"));
  EXPECT_EQ(run_program({"generate", "llama", "x", "--max-tokens", "1", "--seed", "1"}).exit_code, 0);
  EXPECT_NE(run_program({"gc", "--grace", "0"}).out.find("nothing to remove"), std::string::npos);
  fs::remove_all(cache_ / "huggingface/hub/models--org--llama");
  EXPECT_EQ(json_of(run_program({"gc", "--json"}))["forgotten_models"], 1);
}

TEST_F(CliGet, ThePeerUsesWhatWasFetched) {
  if (!has_peer()) GTEST_SKIP() << "needs the Python peers: make oracle";
  ASSERT_EQ(run_program({"get", "org/llama"}).exit_code, 0);
  const int before = server_.count("/store/") + server_.count("/resolve/");
  const std::string script =
      "from huggingface_hub import snapshot_download, scan_cache_dir\n"
      "print(snapshot_download(\"org/llama\"))\n"
      "info = scan_cache_dir()\n"
      "print(len(info.repos), len(info.warnings), sorted(r.repo_id for r in info.repos))\n";
  const ProgramResult peer_result = peer(script);
  EXPECT_EQ(peer_result.exit_code, 0) << peer_result.out;
  EXPECT_NE(peer_result.out.find(std::string("snapshots/") + kCommit), std::string::npos) << peer_result.out;
  EXPECT_NE(peer_result.out.find("1 0 ['org/llama']"), std::string::npos) << peer_result.out;
  for (const HubRequest& request : server_.requests()) {
    EXPECT_TRUE(request.method != "GET" || request.target.find("/resolve/") == std::string::npos ||
                server_.count("/store/") + server_.count("/resolve/") >= before);
  }
}

TEST_F(CliGet, WhatThePeerFetchedIsUsed) {
  if (!has_peer()) GTEST_SKIP() << "needs the Python peers: make oracle";
  const ProgramResult peer_result =
      peer("from huggingface_hub import snapshot_download\nprint(snapshot_download(\"org/llama\"))");
  ASSERT_EQ(peer_result.exit_code, 0) << peer_result.out;
  const int before = server_.count("/store/");
  const ProgramResult got = run_program({"get", "org/llama"});
  EXPECT_EQ(got.exit_code, 0) << got.error;
  EXPECT_NE(got.out.find("already here"), std::string::npos) << got.out;
  EXPECT_EQ(server_.count("/store/"), before);
}

}  // namespace
}  // namespace rafter::cli

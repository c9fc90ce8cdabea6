// `rafter models` from outside: capabilities, revisions, missing files, forgetting.
#include <nlohmann/json.hpp>

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include "format/gguf_writer.h"
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

class CliModels : public ::testing::Test {
 protected:
  // A model as the hub's tools leave it: weights in blobs, links in the snapshot.
  void SetUp() override {
    std::filesystem::create_directories(snapshot_);
    std::filesystem::create_directories(repository_ + "/blobs");
    testing::write_synth_model("llama3-tiny", "bf16", snapshot_);
    std::filesystem::rename(snapshot_ + "/model.safetensors", blob_);
    std::filesystem::create_symlink("../../blobs/weights", snapshot_ + "/model.safetensors");
    folder_.write("hub/models--org--tiny/refs/main", commit_);
    folder_.write("hub/models--org--tiny/snapshots/" + commit_ + "/chat_template.jinja", "{{ tools }}");
  }
  static json models() {
    return json::parse(run_program({"models", "--json"}).out, nullptr, /*allow_exceptions=*/false);
  }

  TempFolder folder_;
  const std::string commit_ = std::string(40, 'b');
  const std::string repository_ = folder_ / "hub/models--org--tiny", blob_ = repository_ + "/blobs/weights",
                    snapshot_ = repository_ + "/snapshots/" + commit_;
  ScopedVariable cache_home_{"XDG_CACHE_HOME", folder_.path().c_str()};
  ScopedVariable hub_{"HF_HUB_CACHE", (folder_ / "hub").c_str()};
};

TEST_F(CliModels, ShowsCapabilitiesAndRevision) {
  const ProgramResult scan = run_program({"scan"});
  ASSERT_EQ(scan.exit_code, 0) << scan.error;
  const json all = models();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["name"], "org/tiny");
  EXPECT_EQ(all[0]["revision"], commit_);
  EXPECT_EQ(all[0]["capabilities"], json({"chat", "tools"}));
  EXPECT_EQ(all[0]["missing_files"], json::array());
  const std::string table = run_program({"models"}).out;
  EXPECT_NE(table.find("CAN"), std::string::npos) << table;
  EXPECT_NE(table.find("chat tools"), std::string::npos) << table;
  EXPECT_NE(table.find(" bbbbbbbb "), std::string::npos) << table;
}

// What a checkpoint has beside the text is named as what this program does not run.
TEST_F(CliModels, NamesTowersAndThinking) {
  json config = json::parse(testing::read_file(snapshot_ + "/config.json"));
  config["vision_config"] = json::object();
  folder_.write("hub/models--org--tiny/snapshots/" + commit_ + "/config.json", config.dump());
  folder_.write("hub/models--org--tiny/snapshots/" + commit_ + "/chat_template.jinja",
                "{{ tools }}<tool_call><think></think>");
  ASSERT_EQ(run_program({"scan"}).exit_code, 0);
  EXPECT_EQ(models()[0]["capabilities"], json({"chat", "tools", "thinking"}));
  EXPECT_EQ(models()[0]["unsupported_capabilities"], json({"vision"}));
  EXPECT_NE(run_program({"models"}).out.find("chat tools thinking (no vision)"), std::string::npos);
}

TEST_F(CliModels, KnowsAGgufThatEmbeds) {
  const std::string path = folder_ / "embed.gguf";
  format::GgufWriter writer(path);
  writer.set_string("general.architecture", "bert");
  writer.set_u32("bert.pooling_type", 1);
  writer.set_string("tokenizer.chat_template.tool_use", "{{ tools }}");
  const float value = 1;
  ASSERT_TRUE(writer.declare("x", tensor::NumberFormat::plain(tensor::DType::f32), {1}).ok());
  ASSERT_TRUE(writer.begin().ok());
  ASSERT_TRUE(writer.append("x", std::as_bytes(std::span(&value, 1))).ok());
  ASSERT_TRUE(writer.finish_blocking().ok());
  ASSERT_EQ(run_program({"add", "embed", path}).exit_code, 0);
  EXPECT_EQ(models()[0]["capabilities"], json({"chat", "tools", "embedding"}));
  EXPECT_EQ(models()[0]["supported"], false);
}

TEST_F(CliModels, MarksMissingFilesAndForgets) {
  ASSERT_EQ(run_program({"scan"}).exit_code, 0);
  std::filesystem::remove(blob_);
  EXPECT_NE(run_program({"models"}).out.find("(1 of 1 files missing)"), std::string::npos);
  const json all = models();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["missing"], true);
  EXPECT_EQ(all[0]["missing_files"], json({snapshot_ + "/model.safetensors"}));
  const ProgramResult forgotten = run_program({"models", "--forget", "tiny"});
  EXPECT_EQ(forgotten.exit_code, 0) << forgotten.error;
  EXPECT_NE(forgotten.out.find("forgot org/tiny"), std::string::npos) << forgotten.out;
  EXPECT_TRUE(std::filesystem::exists(snapshot_ + "/config.json"));
  EXPECT_EQ(models(), json::array());
  EXPECT_EQ(run_program({"models", "--forget", "tiny"}).exit_code, 1);
}

TEST_F(CliModels, ANewerRegistryIsRefusedWithAReason) {
  ASSERT_EQ(run_program({"models"}).exit_code, 0);
  SQLite::Database(folder_ / "rafter/registry.sqlite", SQLite::OPEN_READWRITE)
      .exec("PRAGMA user_version = 1000");
  const ProgramResult refused = run_program({"models"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.error.find("version 1000"), std::string::npos) << refused.error;
}

}  // namespace
}  // namespace rafter::cli

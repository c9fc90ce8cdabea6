#include "store/model_scan.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace rafter::store {
namespace {

using testing::TempFolder;

namespace fs = std::filesystem;

std::vector<std::string> names_of(const std::vector<FoundModel>& found) {
  std::vector<std::string> names;
  for (const auto& model : found) names.push_back(model.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(ModelScan, PlainFoldersAndFiles) {
  TempFolder folder;
  folder.write("llama/config.json", "{}");
  folder.write("llama/model.safetensors", "x");
  folder.write("deep/er/qwen/config.json", "{}");
  folder.write("deep/er/qwen/model-00001-of-00002.safetensors", "x");
  folder.write("only-config/config.json", "{}");
  folder.write("ggufs/small.Q4_0.gguf", "x");
  folder.write("ggufs/big-00001-of-00002.gguf", "x");
  folder.write("ggufs/big-00002-of-00002.gguf", "x");
  folder.write(".hidden/config.json", "{}");
  folder.write(".hidden/model.safetensors", "x");
  folder.write("1/2/3/4/5/too-deep.gguf", "x");
  fs::create_directory_symlink(folder.path(), folder / "llama/loop");
  const auto found = scan_path(folder.path()).value();
  EXPECT_EQ(names_of(found), (Names{"qwen", "big-00001-of-00002", "small.Q4_0", "llama"}));
  EXPECT_EQ(found[3].path, folder / "llama");
  EXPECT_EQ(found[2].path, folder / "ggufs/small.Q4_0.gguf");

  EXPECT_EQ(names_of(scan_path(folder / "llama/").value()), Names{"llama"});
  EXPECT_EQ(names_of(scan_path(folder / "ggufs/small.Q4_0.gguf").value()), Names{"small.Q4_0"});
  EXPECT_TRUE(scan_path(folder / "llama/config.json").value().empty());
  EXPECT_EQ(scan_path(folder / "nowhere").error().code, base::ErrorCode::not_found);
}

class HubCache : public ::testing::Test {
 protected:
  void add_snapshot(const std::string& repository, const std::string& commit, const std::string& file) {
    const std::string blob = folder.write(repository + "/blobs/" + commit + file, "x");
    fs::create_directories(folder / (repository + "/snapshots/" + commit));
    fs::create_symlink("../../blobs/" + commit + file,
                       folder / (repository + "/snapshots/" + commit + "/" + file));
  }
  void add_model(const std::string& repository, const std::string& commit) {
    add_snapshot(repository, commit, "config.json");
    add_snapshot(repository, commit, "model.safetensors");
  }
  TempFolder folder;
};

TEST_F(HubCache, FindsTheSnapshotThatMainNames) {
  add_model("models--org--name--with--dashes", "aaa");
  add_model("models--org--name--with--dashes", "bbb");
  folder.write("models--org--name--with--dashes/refs/main", "aaa\n");
  add_model("models--gpt2", "ccc");
  folder.write("datasets--org--data/snapshots/ddd/config.json", "{}");
  folder.write("models--org--empty/refs/main", "eee");
  const auto found = scan_hugging_face_cache(folder.path());
  EXPECT_EQ(names_of(found), (Names{"gpt2", "org/name--with--dashes"}));
  EXPECT_EQ(found[1].path, folder / "models--org--name--with--dashes/snapshots/aaa");
}

TEST_F(HubCache, FallsBackToTheNewestSnapshot) {
  add_model("models--o--n", "old");
  add_model("models--o--n", "new");
  fs::last_write_time(folder / "models--o--n/snapshots/old",
                      fs::last_write_time(folder / "models--o--n/snapshots/new") - std::chrono::hours(1));
  for (const char* reference : {"", "../../..", "gone"}) {
    folder.write("models--o--n/refs/main", reference);
    const auto found = scan_hugging_face_cache(folder.path());
    ASSERT_EQ(found.size(), 1u) << reference;
    EXPECT_EQ(found[0].path, folder / "models--o--n/snapshots/new");
  }
}

TEST_F(HubCache, FindsGgufFilesUnderTheirOwnNames) {
  add_snapshot("models--o--n-GGUF", "aaa", "n.Q4_0.gguf");
  add_snapshot("models--o--n-GGUF", "aaa", "n.Q8_0.gguf");
  const auto found = scan_hugging_face_cache(folder.path());
  EXPECT_EQ(names_of(found), (Names{"o/n-GGUF/n.Q4_0", "o/n-GGUF/n.Q8_0"}));
  EXPECT_EQ(found[0].path, folder / "models--o--n-GGUF/snapshots/aaa/n.Q4_0.gguf");
}

TEST_F(HubCache, PassesOverSnapshotsWithLinksThatLeadOut) {
  add_model("models--o--good", "aaa");
  add_model("models--o--evil", "aaa");
  const std::string secret = folder.write("secret.json", "{}");
  fs::create_symlink(secret, folder / "models--o--evil/snapshots/aaa/tokenizer.json");
  EXPECT_EQ(names_of(scan_hugging_face_cache(folder.path())), Names{"o/good"});
}

TEST(ModelScan, NoCacheHoldsNoModels) { EXPECT_TRUE(scan_hugging_face_cache("/nowhere/at/all").empty()); }

}  // namespace
}  // namespace rafter::store

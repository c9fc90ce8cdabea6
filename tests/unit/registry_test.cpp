#include "store/registry.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/database.h"
#include "store/paths.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_folder.h"

namespace rafter::store {
namespace {

using testing::ScopedVariable;
using testing::TempFolder;

ModelRecord record(const std::string& path, const std::string& name) {
  ModelRecord r;
  r.path = path;
  r.name = name;
  r.container = "safetensors";
  r.architecture = "llama";
  r.quantization = "q4g64+bf16";
  r.parameters = 1234567890123;
  r.bytes = 777;
  r.context = 8192;
  return r;
}

class Registry : public ::testing::Test {
 protected:
  // A record whose path exists.
  ModelRecord on_disk(const std::string& folder_name, const std::string& name) {
    return record(folder.write(folder_name + "/config.json", "{}")
                      .substr(0, folder.path().size() + 1 + folder_name.size()),
                  name);
  }
  ModelRegistry open() { return std::move(ModelRegistry::open(file)).value(); }

  TempFolder folder;
  std::string file = folder / "state/registry.sqlite";
};

TEST_F(Registry, KeepsWhatWasPutAcrossOpenings) {
  const ModelRecord written = on_disk("a", "org/a");
  {
    ModelRegistry registry = open();
    ASSERT_TRUE(registry.put(written).ok());
    ASSERT_TRUE(registry.set_alias("short", written.path).ok());
  }
  const auto records = open().list().value();
  ASSERT_EQ(records.size(), 1u);
  const ModelRecord& read = records[0];
  EXPECT_EQ(read.path, written.path);
  EXPECT_EQ(read.name, "org/a");
  EXPECT_EQ(read.quantization, "q4g64+bf16");
  EXPECT_EQ(read.parameters, 1234567890123);
  EXPECT_EQ(read.bytes, 777);
  EXPECT_EQ(read.context, 8192);
  EXPECT_TRUE(read.supported);
  EXPECT_GT(read.added_at, 1600000000);
  EXPECT_EQ(read.aliases, std::vector<std::string>{"short"});
}

TEST_F(Registry, PuttingAgainKeepsAliasAndDate) {
  ModelRegistry registry = open();
  ModelRecord r = on_disk("a", "org/a");
  r.added_at = 1700000000;
  ASSERT_TRUE(registry.put(r).ok());
  ASSERT_TRUE(registry.set_alias("x", r.path).ok());
  r.name = "org/renamed";
  r.added_at = 0;
  ASSERT_TRUE(registry.put(r).ok());
  const auto records = registry.list().value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].name, "org/renamed");
  EXPECT_EQ(records[0].added_at, 1700000000);
  EXPECT_EQ(records[0].aliases, std::vector<std::string>{"x"});
}

TEST_F(Registry, FindsByPathAliasNameAndPart) {
  ModelRegistry registry = open();
  const ModelRecord tiny = on_disk("tiny", "Org/Llama-Tiny"), chat = on_disk("chat", "Org/Llama-Tiny-Chat");
  const ModelRecord qwen = on_disk("q", "Other/Qwen3");
  for (const auto& r : {tiny, chat, qwen}) ASSERT_TRUE(registry.put(r).ok());
  ASSERT_TRUE(registry.set_alias("smollm2", qwen.path).ok());
  EXPECT_EQ(registry.find(tiny.path)->path, tiny.path);
  EXPECT_EQ(registry.find(tiny.path + "/../tiny/")->path, tiny.path);
  EXPECT_EQ(registry.find("smollm2")->path, qwen.path);
  EXPECT_EQ(registry.find("SMOL")->path, qwen.path);
  EXPECT_EQ(registry.find("org/llama-tiny")->path, tiny.path);  // exact, though the other contains it
  EXPECT_EQ(registry.find("tiny-CHAT")->path, chat.path);
  EXPECT_EQ(registry.find("qwen")->path, qwen.path);

  auto several = registry.find("llama");
  ASSERT_FALSE(several.ok());
  EXPECT_EQ(several.error().code, base::ErrorCode::invalid_argument);
  EXPECT_NE(several.error().what.find("Org/Llama-Tiny, Org/Llama-Tiny-Chat"), std::string::npos)
      << several.error().what;

  for (const char* unknown : {"gpt", "", "/nowhere", "%", "_"}) {
    auto nothing = registry.find(unknown);
    ASSERT_FALSE(nothing.ok()) << unknown;
    EXPECT_EQ(nothing.error().code, base::ErrorCode::not_found);
    EXPECT_NE(nothing.error().hint.find("rafter scan"), std::string::npos);
  }
}

TEST_F(Registry, OneNameAtTwoPlacesIsAmbiguous) {
  ModelRegistry registry = open();
  ASSERT_TRUE(registry.put(on_disk("a/model", "model")).ok());
  ASSERT_TRUE(registry.put(on_disk("b/model", "model")).ok());
  auto several = registry.find("model");
  ASSERT_FALSE(several.ok());
  EXPECT_NE(several.error().hint.find("path"), std::string::npos);
}

TEST_F(Registry, AliasesMoveAndAreChecked) {
  ModelRegistry registry = open();
  const ModelRecord a = on_disk("a", "a"), b = on_disk("b", "b");
  ASSERT_TRUE(registry.put(a).ok());
  ASSERT_TRUE(registry.put(b).ok());
  ASSERT_TRUE(registry.set_alias("main", a.path).ok());
  ASSERT_TRUE(registry.set_alias("main", b.path).ok());
  EXPECT_EQ(registry.find("main")->path, b.path);
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string("a\nb"), std::string("\xFF"), std::string(200, 'x')}) {
    EXPECT_EQ(registry.set_alias(bad, a.path).error().code, base::ErrorCode::invalid_argument);
  }
  EXPECT_EQ(registry.set_alias("ghost", "/nowhere").error().code, base::ErrorCode::not_found);
  ASSERT_TRUE(registry.remove(b.path).ok());
  EXPECT_FALSE(registry.find("main").ok());
}

TEST_F(Registry, MissingPathsAreForgottenOrMarked) {
  ModelRegistry registry = open();
  const ModelRecord plain = on_disk("plain", "plain"), named = on_disk("named", "named"),
                    kept = on_disk("kept", "kept");
  for (const auto& r : {plain, named, kept}) ASSERT_TRUE(registry.put(r).ok());
  ASSERT_TRUE(registry.set_alias("favourite", named.path).ok());
  std::filesystem::remove_all(plain.path);
  std::filesystem::rename(named.path, folder / "away");
  EXPECT_EQ(registry.reap_missing().value(), 1);
  auto records = registry.list().value();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_FALSE(records[0].missing);
  EXPECT_TRUE(records[1].missing);
  EXPECT_FALSE(registry.find("favourite").ok());
  std::filesystem::rename(folder / "away", named.path);
  EXPECT_EQ(registry.reap_missing().value(), 0);
  EXPECT_EQ(registry.find("favourite")->path, named.path);
}

TEST_F(Registry, KeepsCapabilitiesRevisionAndFiles) {
  ModelRegistry registry = open();
  ModelRecord r = on_disk("a", "org/a");
  r.capabilities = "chat tools";
  r.revision = std::string(40, 'c');
  r.weight_files = {r.path + "/2.safetensors", r.path + "/1 of \n2.safetensors"};
  ASSERT_TRUE(registry.put(r).ok());
  ModelRecord read = registry.list()->front();
  EXPECT_EQ(read.capabilities, r.capabilities);
  EXPECT_EQ(read.revision, r.revision);
  EXPECT_EQ(read.weight_files, (std::vector<std::string>{r.weight_files[1], r.weight_files[0]}));
  r.capabilities.clear();
  r.weight_files = {r.path + "/model.safetensors"};
  ASSERT_TRUE(registry.put(r).ok());
  read = registry.list()->front();
  EXPECT_EQ(read.capabilities, "");
  EXPECT_EQ(read.weight_files, r.weight_files);
}

TEST_F(Registry, AMissingWeightFileIsMarkedAndFoundAgain) {
  ModelRegistry registry = open();
  ModelRecord r = on_disk("a", "org/a");
  const std::string blob = folder.write("blob", "weights"), link = r.path + "/model.safetensors";
  std::filesystem::create_symlink(blob, link);
  r.weight_files = {link};
  ASSERT_TRUE(registry.put(r).ok());
  EXPECT_EQ(registry.reap_missing().value(), 0);
  EXPECT_FALSE(registry.list()->front().missing);
  std::filesystem::rename(blob, folder / "away");  // the link leads nowhere now
  EXPECT_EQ(registry.reap_missing().value(), 0);
  EXPECT_TRUE(registry.list()->front().missing);
  EXPECT_EQ(missing_files(r), r.weight_files);
  EXPECT_FALSE(registry.find("org/a").ok());
  EXPECT_EQ(registry.find("org/a", /*with_missing=*/true)->path, r.path);
  std::filesystem::rename(folder / "away", blob);
  EXPECT_EQ(registry.reap_missing().value(), 0);
  EXPECT_TRUE(registry.find("org/a").ok());
}

// The tables as the first version made them, written out: the migrations in the program may not be asked.
TEST_F(Registry, AFileOfTheFirstVersionIsMigrated) {
  const ModelRecord old = on_disk("old", "org/old");
  std::filesystem::create_directories(folder / "state");
  {
    SQLite::Database database(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec(
        "CREATE TABLE models (path TEXT PRIMARY KEY, name TEXT NOT NULL, container TEXT NOT NULL,"
        "  architecture TEXT NOT NULL, quantization TEXT NOT NULL, parameters INTEGER NOT NULL,"
        "  bytes INTEGER NOT NULL, context INTEGER NOT NULL, supported INTEGER NOT NULL,"
        "  added_at INTEGER NOT NULL, missing INTEGER NOT NULL DEFAULT 0) STRICT;"
        "CREATE TABLE aliases (alias TEXT PRIMARY KEY,"
        "  path TEXT NOT NULL REFERENCES models(path) ON DELETE CASCADE) STRICT;"
        "CREATE INDEX aliases_by_path ON aliases(path);"
        "PRAGMA user_version = 1");
    SQLite::Statement insert(database,
                             "INSERT INTO models VALUES (?, 'org/old', 'gguf', 'llama', 'q4_0', 7, 8, 9, 1, "
                             "1700000000, 0)");
    SQLite::bind(insert, old.path);
    insert.exec();
    SQLite::Statement alias(database, "INSERT INTO aliases VALUES ('mine', ?)");
    SQLite::bind(alias, old.path);
    alias.exec();
  }
  ModelRegistry registry = open();
  EXPECT_EQ(registry.reap_missing().value(), 0);
  const ModelRecord read = registry.find("mine").value();
  EXPECT_EQ(read.path, old.path);
  EXPECT_EQ(read.quantization, "q4_0");
  EXPECT_EQ(read.parameters, 7);
  EXPECT_EQ(read.added_at, 1700000000);
  EXPECT_TRUE(read.capabilities.empty());
  EXPECT_EQ(read.revision, "");
  EXPECT_TRUE(read.weight_files.empty());
  EXPECT_FALSE(read.missing);
  ModelRecord again = old;
  again.capabilities = "chat";
  ASSERT_TRUE(registry.put(again).ok());
  EXPECT_EQ(registry.find("mine")->capabilities, "chat");
}

TEST_F(Registry, AFileOfANewerProgramIsRefused) {
  open();
  SQLite::Database(file, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 1000");
  auto refused = ModelRegistry::open(file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::unsupported);
}

TEST_F(Registry, AFileThatIsNoDatabaseIsAnError) {
  const std::string path = folder.write("junk.sqlite", std::string(5000, 'j'));
  auto refused = ModelRegistry::open(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::io);
}

TEST_F(Registry, AFailedMigrationLeavesTheFileAsItWas) {
  const char* first[] = {"CREATE TABLE t (a INTEGER)"};
  ASSERT_TRUE(open_database(file, first).ok());
  const char* broken[] = {"CREATE TABLE t (a INTEGER)", "CREATE TABLE u (a INTEGER); CREATE GARBAGE"};
  EXPECT_FALSE(open_database(file, broken).ok());
  SQLite::Database database(file, SQLite::OPEN_READONLY);
  EXPECT_FALSE(database.tableExists("u"));
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 1);
}

// Several processes create the file at the same moment and then write to it in turns.
TEST_F(Registry, ProcessesShareTheFile) {
  constexpr int kProcesses = 4, kRecords = 25;
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(gate[1]);
      char byte;
      (void)!::read(gate[0], &byte, 1);  // returns for all when the parent closes its end
      auto registry = ModelRegistry::open(file);
      bool good = registry.ok();
      for (int i = 0; good && i < kRecords; ++i) {
        const std::string path = fmt::format("/p{}/m{}", process, i);
        good = registry->put(record(path, fmt::format("m{}", i))).ok() &&
               registry->set_alias("last", path).ok() && registry->list().ok();
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open().list()->size(), size_t{kProcesses * kRecords});
}

TEST(Paths, FollowTheEnvironment) {
  ScopedVariable home("HOME", "/home/u"), xdg("XDG_CACHE_HOME", nullptr), hub("HF_HUB_CACHE", nullptr),
      hf("HF_HOME", nullptr);
  EXPECT_EQ(cache_directory().value(), "/home/u/.cache/rafter");
  EXPECT_EQ(hugging_face_hub_directory().value(), "/home/u/.cache/huggingface/hub");
  ScopedVariable xdg_set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(cache_directory().value(), "/x/rafter");
  EXPECT_EQ(hugging_face_hub_directory().value(), "/x/huggingface/hub");
  ScopedVariable hf_set("HF_HOME", "/hf");
  EXPECT_EQ(hugging_face_hub_directory().value(), "/hf/hub");
  ScopedVariable hub_set("HF_HUB_CACHE", "/hub");
  EXPECT_EQ(hugging_face_hub_directory().value(), "/hub");
  ScopedVariable no_home("HOME", nullptr), no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_directory().error().code, base::ErrorCode::not_found);
}

}  // namespace
}  // namespace rafter::store

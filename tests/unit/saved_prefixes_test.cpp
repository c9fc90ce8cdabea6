// Prefixes in files: what a restarted lane finds, and what becomes of files that are too many, damaged,
// foreign or cannot be written.
#include "sched/saved_prefixes.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/restart_checks.h"

namespace rafter::sched {
namespace {

using namespace decode;  // NOLINT: the checks and fakes of generation

class SavedPrefixesTest : public ::testing::Test {
 protected:
  static FakeEngine fresh_engine() { return {kVocabulary, 4096, 64, hashing_model(kVocabulary)}; }

  // What a lane over a new engine gives; then it saves what it keeps.
  GenerationResult ask(const std::vector<int32_t>& prompt, const std::string& space = "",
                       int64_t bytes = 1 << 30) {
    FakeEngine engine = fresh_engine();
    return ask(engine, prompt, space, bytes);
  }
  GenerationResult ask(FakeEngine& engine, const std::vector<int32_t>& prompt, const std::string& space = "",
                       int64_t bytes = 1 << 30) {
    Scheduler lane(engine, {byte_tokenizer(), {}},
                   with_saved(saved_prefixes(engine, folder_.path(), &log_, bytes)));
    GenerationRequest request = greedy(prompt, 10);
    request.cache_space = space;
    const GenerationResult result = generate_blocking(lane, request).value();
    save_all(lane);
    EXPECT_FALSE(lane.has_unsaved_prefixes());
    return result;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().string());
    return names;
  }

  testing::TempFolder folder_;
  std::vector<std::string> log_;
};

TEST_F(SavedPrefixesTest, AConversationGoesOnAfterEveryRestart) {
  EXPECT_EQ(restart_faults<FakeEngine>(), "");
}

TEST_F(SavedPrefixesTest, SpacesModelsAndModesAreNeverCrossed) {
  ask(numbered(200), "adapter");
  EXPECT_EQ(ask(numbered(200)).cached_tokens, 0);
  EXPECT_EQ(ask(numbered(200), "adapter").cached_tokens, 199);
  FakeEngine other = fresh_engine();
  other.origin.model = 2;
  EXPECT_EQ(ask(other, numbered(200)).cached_tokens, 0);
  FakeEngine quantised = fresh_engine();
  quantised.origin.mode = "8 bit";
  EXPECT_EQ(ask(quantised, numbered(200)).cached_tokens, 0);
  EXPECT_EQ(files().size(), 4u);
  EXPECT_TRUE(log_.empty());
}

TEST_F(SavedPrefixesTest, AShortPrefixIsNotWorthAFile) {
  ask(numbered(20));
  EXPECT_TRUE(files().empty());
}

TEST_F(SavedPrefixesTest, WhatWasNotUsedForLongestGivesWay) {
  for (int32_t i = 0; i < 8; ++i) {
    ask(numbered(300, i));
    ask(numbered(300, 0));  // used again and again
  }
  int64_t total = 0;
  for (const std::string& file : files()) total += static_cast<int64_t>(std::filesystem::file_size(file));
  const int64_t allowed = total / 2;
  ask(numbered(300, 100), "", allowed);
  total = 0;
  for (const std::string& file : files()) total += static_cast<int64_t>(std::filesystem::file_size(file));
  EXPECT_LE(total, allowed);
  EXPECT_EQ(ask(numbered(300, 0)).cached_tokens, 299);
  EXPECT_EQ(ask(numbered(300, 100)).cached_tokens, 299);
  EXPECT_EQ(ask(numbered(300, 1)).cached_tokens, 0);
}

TEST_F(SavedPrefixesTest, ADamagedFileIsDeletedAndCostsNothingElse) {
  const GenerationResult expected = ask(numbered(200));
  ASSERT_EQ(files().size(), 1u);
  const std::string path = files()[0], whole = testing::read_file(path);
  for (size_t damage : {size_t{3}, size_t{60}, whole.size() - 1, whole.size()}) {
    std::string damaged = whole;
    if (damage < whole.size()) {
      damaged[damage] = static_cast<char>(damaged[damage] ^ 4);
    } else {
      damaged.resize(whole.size() / 2);
    }
    std::ofstream(path, std::ios::binary) << damaged;
    log_.clear();
    const GenerationResult result = ask(numbered(200));
    EXPECT_EQ(result.cached_tokens, 0) << damage;
    EXPECT_EQ(result.tokens, expected.tokens) << damage;
    ASSERT_EQ(log_.size(), 1u) << damage;
    EXPECT_NE(log_[0].find(path), std::string::npos) << log_[0];
    EXPECT_EQ(testing::read_file(path), whole) << "it was saved anew";
  }
}

TEST_F(SavedPrefixesTest, AFileThatIsGoneIsForgotten) {
  ask(numbered(200));
  FakeEngine engine = fresh_engine();
  const auto saved = saved_prefixes(engine, folder_.path(), &log_);
  Scheduler lane(engine, {byte_tokenizer(), {}}, with_saved(saved));
  std::filesystem::remove(files()[0]);
  EXPECT_EQ(generate_blocking(lane, greedy(numbered(200), 5)).value().cached_tokens, 0);
  EXPECT_TRUE(saved->files().empty());
  EXPECT_EQ(log_.size(), 1u);
}

TEST_F(SavedPrefixesTest, ASaveThatFailsIsSaidOnceAndTheLaneGoesOn) {
  FakeEngine engine = fresh_engine();
  engine.saves_fail = true;
  engine.failure = {base::ErrorCode::io, "cannot write file: No space left on device", "disk", ""};
  Scheduler lane(engine, {byte_tokenizer(), {}}, with_saved(saved_prefixes(engine, folder_.path(), &log_)));
  EXPECT_EQ(generate_blocking(lane, greedy(numbered(200), 5)).value().cached_tokens, 0);
  save_all(lane);
  save_all(lane);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("No space left"), std::string::npos);
  EXPECT_TRUE(files().empty()) << "a part of a file is left";
  EXPECT_EQ(generate_blocking(lane, greedy(numbered(200), 5)).value().cached_tokens, 199);
  engine.saves_fail = false;
  generate_blocking(lane, greedy(numbered(230), 5)).value();
  save_all(lane);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(SavedPrefixesTest, WhatIsKeptGivesWayToAPrefixFromAFile) {
  ask(numbered(1000));
  FakeEngine engine = fresh_engine();
  engine.total_positions = 1500;
  Scheduler lane(engine, {byte_tokenizer(), {}}, with_saved(saved_prefixes(engine, folder_.path())));
  generate_blocking(lane, greedy(numbered(900, 100), 5)).value();
  EXPECT_EQ(generate_blocking(lane, greedy(numbered(1000), 5)).value().cached_tokens, 999);
  EXPECT_EQ(lane.stats().loaded_prefixes, 1);
}

TEST_F(SavedPrefixesTest, WhatIsNoneOfOursStays) {
  folder_.write("notes.txt", "mine");
  folder_.write("x.kv.1.tmp", "being written");
  folder_.write("y.kv.2.tmp", "left behind");
  std::filesystem::last_write_time(folder_ / "y.kv.2.tmp",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  ask(numbered(200), "", 10000);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "x.kv.1.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.kv.2.tmp"));
}

TEST_F(SavedPrefixesTest, AFolderThatCannotBeIsAnError) {
  const std::string file = folder_.write("file", "x");
  FakeEngine engine = fresh_engine();
  const auto opened = SavedPrefixes::open(engine, {file, 1000});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().hint.find("--prompt-cache-dir"), std::string::npos);
  EXPECT_FALSE(SavedPrefixes::open(engine, {file + "/below", 1000}).ok());
}

}  // namespace
}  // namespace rafter::sched

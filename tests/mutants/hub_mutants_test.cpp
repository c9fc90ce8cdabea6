// Faults that the comparer of hub snapshots must see.
#include <fstream>

#include <gtest/gtest.h>

#include "hub/cache_layout.h"
#include "tests/support/hub_check.h"
#include "tests/support/temp_folder.h"

namespace rafter::hub {
namespace {

namespace fs = std::filesystem;
using testing::HubFile;
using testing::HubServer;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

class HubMutants : public ::testing::Test {
 protected:
  HubMutants() : layout_(cache_.path(), "org/name") {
    EXPECT_TRUE(layout_.create_folders().ok());
    for (const HubFile& file : files_) {
      std::ofstream(blob(file)) << file.content;
      EXPECT_TRUE(layout_.link(kCommit, file.path, digest(file)).ok());
    }
  }
  static std::string digest(const HubFile& file) {
    return file.large ? HubServer::sha256(file.content) : HubServer::git_sha1(file.content);
  }
  std::string blob(const HubFile& file) const { return layout_.blob(digest(file)); }
  std::vector<std::string> wrong() const {
    return testing::wrong_in_snapshot(layout_.folder(), kCommit, files_);
  }

  std::vector<HubFile> files_ = {{"config.json", "{}", false}, {"sub/weights.bin", "0123456789", true}};
  testing::TempFolder cache_;
  CacheLayout layout_;
};

TEST_F(HubMutants, AGoodSnapshotPasses) { EXPECT_TRUE(wrong().empty()); }

TEST_F(HubMutants, AFlippedBit) {
  std::fstream(blob(files_[1]), std::ios::in | std::ios::out).put('1');
  EXPECT_EQ(wrong(), std::vector<std::string>{"sub/weights.bin: content"});
}

TEST_F(HubMutants, AShortFile) {
  fs::resize_file(blob(files_[1]), 9);
  EXPECT_EQ(wrong(), std::vector<std::string>{"sub/weights.bin: content"});
}

TEST_F(HubMutants, AMissingFile) {
  fs::remove(fs::path(layout_.snapshot(kCommit)) / "config.json");
  EXPECT_EQ(wrong().size(), 2u);
}

TEST_F(HubMutants, AnAbsoluteLink) {
  const fs::path link = fs::path(layout_.snapshot(kCommit)) / "config.json";
  fs::remove(link);
  fs::create_symlink(blob(files_[0]), link);
  EXPECT_EQ(wrong(), std::vector<std::string>{"config.json: link"});
}

TEST_F(HubMutants, AWrongDigestKind) {
  files_[0].large = true;
  EXPECT_EQ(wrong(), std::vector<std::string>{"config.json: link"});
}

TEST_F(HubMutants, AnUnfinishedFileLeftBehind) {
  std::ofstream(layout_.partial("abc")) << "x";
  EXPECT_EQ(wrong(), std::vector<std::string>{"abc.rafter.incomplete: unfinished"});
}

}  // namespace
}  // namespace rafter::hub

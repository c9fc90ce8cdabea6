// The registry: what a family costs in files, and that every row leads somewhere.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "model/model.h"

namespace rafter::testing {
namespace {

// Files under src that name `word`.
std::set<std::string> files_with(const std::string& word) {
  std::set<std::string> found;
  const std::filesystem::path source(RAFTER_SOURCE_DIR "/src");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find(word) != std::string::npos)
      found.insert(std::filesystem::relative(entry.path(), source).string());
  }
  return found;
}

// Lines of the registry that name `word`.
int registry_rows(const std::string& word) {
  std::ifstream file(RAFTER_SOURCE_DIR "/src/model/families.h");
  int rows = 0;
  for (std::string line; std::getline(file, line);) rows += line.find(word) != std::string::npos;
  return rows;
}

TEST(Families, AFamilyIsOneFileAndOneTableRow) {
  for (const std::string family : {"phi3", "smollm3"}) {
    EXPECT_EQ(files_with(family), (std::set<std::string>{"model/families.h", "model/" + family + ".cpp"}));
    EXPECT_EQ(registry_rows(family), 1) << family;
  }
}

TEST(Families, NamesAreThereOnce) {
  const auto names = model::supported_architectures();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  EXPECT_GE(names.size(), 20u);
}

}  // namespace
}  // namespace rafter::testing

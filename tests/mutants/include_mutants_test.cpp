// Planted faults that scripts/check_includes.py must catch.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace rafter::testing {
namespace {

// A tree of the real layer table and one file; true: the check passes.
bool passes(const std::string& file, const std::string& text) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "cmake");
  std::filesystem::copy(RAFTER_SOURCE_DIR "/cmake/layers.txt", folder / "cmake/layers.txt");
  folder.write("src/" + file, text);
  const std::string command =
      std::string(RAFTER_SOURCE_DIR "/scripts/check_includes.py ") + folder.path() + " > /dev/null";
  return std::system(command.c_str()) == 0;
}

TEST(IncludeMutants, IncludesThatPointDownPass) {
  EXPECT_TRUE(passes("model/a.h", "#pragma once\n#include <vector>\n#include \"plan/plan.h\"\n"));
  EXPECT_TRUE(passes("cli/a.cpp", "#include \"base/result.h\"\n"));
}

TEST(IncludeMutants, IncludesThatDoNotAreCaught) {
  EXPECT_FALSE(passes("plan/a.h", "#pragma once\n#include \"model/model.h\"\n"));
  EXPECT_FALSE(passes("model/a.cpp", "#include \"engine/engine.h\"\n"));
  EXPECT_FALSE(passes("kernels/cpu/a.cpp", "#include \"kernels/ref/reference_kernels.h\"\n"));
  EXPECT_FALSE(passes("text/a.cpp", "  #  include \"tensor/dtype.h\"\n"));
  EXPECT_FALSE(passes("base/a.cpp", "#include \"../text/bpe.h\"\n"));
  EXPECT_FALSE(passes("base/a.cpp", "#include \"result.h\"\n"));
}

TEST(IncludeMutants, FilesThatBelongNowhereAreCaught) {
  EXPECT_FALSE(passes("new/a.cpp", "int a;\n"));
  EXPECT_FALSE(passes("base/a.h", "int a();\n"));  // no #pragma once
}

}  // namespace
}  // namespace rafter::testing

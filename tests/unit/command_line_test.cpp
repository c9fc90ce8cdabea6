#include "cli/command_line.h"

#include <filesystem>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "cli/environment.h"
#include "cli/model_table.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "tests/support/temp_folder.h"

namespace rafter::cli {
namespace {

TEST(CommandLine, ExitCodes) {
  using base::ErrorCode;
  const std::pair<ErrorCode, int> expected[] = {{ErrorCode::invalid_argument, 2}, {ErrorCode::not_found, 1},
                                                {ErrorCode::invalid_data, 1},     {ErrorCode::unsupported, 1},
                                                {ErrorCode::out_of_memory, 3},    {ErrorCode::io, 1},
                                                {ErrorCode::interrupted, 4},      {ErrorCode::internal, 1}};
  for (const auto& [code, exit_code] : expected) EXPECT_EQ(exit_code_of({code, "", "", ""}), exit_code);
}

// The table of variables and the sources that read them say the same.
TEST(CommandLine, EveryEnvironmentVariableIsInTheTable) {
  std::set<std::string> listed, read;
  for (const EnvironmentVariable& variable : environment_variables()) listed.insert(variable.name);
  const std::regex reading(R"re((?:getenv|variable|below_home)\("([A-Z_]+)")re");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RAFTER_SOURCE_DIR "/src")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = testing::read_file(entry.path().string());
    for (std::sregex_iterator match(text.begin(), text.end(), reading), end; match != end; ++match) {
      read.insert((*match)[1]);
    }
  }
  EXPECT_EQ(listed, read);
}

TEST(Terminal, ControlCharactersDoNotReachIt) {
  EXPECT_EQ(without_control_characters("plain é\n\ttext"), "plain é\n\ttext");
  EXPECT_EQ(without_control_characters("\x1b[31mred\x1b]0;title\x07"),
            "\xEF\xBF\xBD[31mred\xEF\xBF\xBD]0;title\xEF\xBF\xBD");
  EXPECT_EQ(without_control_characters("a\r\nb\x7F\xC2\x9B"
                                       "c"),
            "a\nb\xEF\xBF\xBD\xEF\xBF\xBD"
            "c");
  EXPECT_EQ(without_control_characters("\xFF"), "\xEF\xBF\xBD");
}

TEST(Terminal, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1500), "1.5 kB");
  EXPECT_EQ(format_bytes(98'400'000), "98.4 MB");
  EXPECT_EQ(format_bytes(999'999'999), "1.0 GB");
  EXPECT_EQ(format_bytes(16'060'522'496), "16.1 GB");
}

TEST(ModelTable, ShowsWhatMatters) {
  EXPECT_NE(model_table({}).find("rafter scan"), std::string::npos);
  store::ModelRecord record;
  record.name = "org/naïve";
  record.path = "/m";
  record.architecture = "mamba";
  record.supported = false;
  record.parameters = 1'235'814'400;
  record.aliases = {"a", "b"};
  const std::string table = model_table({record});
  EXPECT_NE(table.find("a, b   org/naïve  mamba (unsupported)  1.2B"), std::string::npos) << table;
}

}  // namespace
}  // namespace rafter::cli

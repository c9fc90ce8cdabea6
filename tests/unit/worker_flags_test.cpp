#include "cli/worker_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include <gtest/gtest.h>

namespace rafter::cli {
namespace {

// Values other than the defaults, by flag.
const std::vector<std::pair<std::string, std::string>> kValues = {{"--batch", "3"},
                                                                  {"--queue", "7"},
                                                                  {"--prompt-cache", "5MB"},
                                                                  {"--prompt-cache-dir", "/cache"},
                                                                  {"--prompt-cache-disk", "3GB"},
                                                                  {"--memory-budget", "9"},
                                                                  {"--device", "cuda:1"},
                                                                  {"--threads", "2"},
                                                                  {"--ctx", "77"},
                                                                  {"--prefill-chunk", "33"},
                                                                  {"--kv-quant", "8"},
                                                                  {"--executor", "reference"}};
const std::vector<std::string> kSwitches = {"--embeddings", "--precise"};

// `serve` takes the worker's flags and starts the worker with them: none may be lost on the way.
TEST(WorkerFlags, EveryFlagReachesTheWorker) {
  CLI::App app;
  WorkerFlags flags;
  add_worker_flags(app, flags);
  std::vector<std::string> arguments = {"a-model"};
  for (const auto& [name, value] : kValues) arguments.insert(arguments.end(), {name, value});
  arguments.insert(arguments.end(), kSwitches.begin(), kSwitches.end());
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  ASSERT_NO_THROW(app.parse(arguments));

  const std::vector<std::string> words = worker_command("/bin/rafter", flags);
  EXPECT_EQ(words[0], "/bin/rafter");
  EXPECT_NE(std::find(words.begin(), words.end(), "a-model"), words.end());
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    const std::string name = "--" + option->get_lnames()[0];
    const auto word = std::find(words.begin(), words.end(), name);
    ASSERT_NE(word, words.end()) << name << " is not handed on";
    const auto value =
        std::find_if(kValues.begin(), kValues.end(), [&](const auto& v) { return v.first == name; });
    if (value == kValues.end()) {
      EXPECT_NE(std::find(kSwitches.begin(), kSwitches.end(), name), kSwitches.end()) << name;
    } else {
      EXPECT_EQ(*(word + 1), value->second) << name;
    }
  }

  CLI::App again;
  WorkerFlags read;
  add_worker_flags(again, read);
  std::vector<std::string> rest(words.begin() + 2, words.end());
  std::reverse(rest.begin(), rest.end());
  ASSERT_NO_THROW(again.parse(rest));
  EXPECT_EQ(worker_command("/bin/rafter", read), words);
}

}  // namespace
}  // namespace rafter::cli

#include "cli/environment.h"

#include <fmt/format.h>

namespace rafter::cli {
namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"RAFTER_ISA", "kernels to use: portable, avx2 or avx512 (default: the best this machine has)"},
    {"XDG_CACHE_HOME", "rafter keeps its registry and history in rafter/ below it (default: ~/.cache)"},
    {"HF_HUB_CACHE", "the Hugging Face cache that `rafter scan` looks at"},
    {"HF_HOME", "where that is hub/, when HF_HUB_CACHE is not set (default: ~/.cache/huggingface)"},
    {"HOME", "where ~ is"},
};

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment_help() {
  std::string text = "Environment variables:\n";
  for (const EnvironmentVariable& variable : kVariables) {
    text += fmt::format("  {:<16} {}\n", variable.name, variable.meaning);
  }
  return text;
}

}  // namespace rafter::cli

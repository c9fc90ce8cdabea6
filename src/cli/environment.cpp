#include "cli/environment.h"

#include <fmt/format.h>

namespace rafter::cli {
namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"RAFTER_ISA", "kernels to use: portable, avx2 or avx512 (default: the best this machine has)"},
    {"RAFTER_GPU_SHARED_BYTES",
     "bytes of shared memory that a GPU's block may use, for trying what a smaller GPU runs (default: all)"},
    {"XDG_CACHE_HOME", "rafter keeps its registry and history in rafter/ below it (default: ~/.cache)"},
    {"HF_HUB_CACHE", "the Hugging Face cache: `rafter get` fills it, `rafter scan` looks at it"},
    {"HF_HOME", "where that is hub/, when HF_HUB_CACHE is not set (default: ~/.cache/huggingface)"},
    {"HF_ENDPOINT", "the hub that `rafter get` asks (default: https://huggingface.co)"},
    {"HF_TOKEN",
     "access token for the hub; HF_TOKEN_PATH names a file with one (default: what a login left)"},
    {"HF_TOKEN_PATH", "the file that HF_TOKEN is read from when it is not set"},
    {"HF_HUB_OFFLINE", "1: `rafter get` uses what the cache holds and asks nobody"},
    {"HOME", "where ~ is"},
};

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment_help() {
  std::string text = "Environment variables:\n";
  for (const EnvironmentVariable& variable : kVariables) {
    text += fmt::format("  {:<24} {}\n", variable.name, variable.meaning);
  }
  return text;
}

}  // namespace rafter::cli

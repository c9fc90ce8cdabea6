// Which files of a repository a model needs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/repository.h"

namespace rafter::hub {

struct FileChoice {
  std::vector<std::string> include;  // patterns; empty: what a model needs
  std::vector<std::string> exclude;  // patterns
  std::string gguf;                  // part of a GGUF file's name, without regard to case: "Q4_K_M"
};

// `*` any characters ('/' too), `?` one, `[abc]`, `[!abc]` one of a set: the patterns of the hub's own tools.
// A pattern that ends in '/' stands for everything below.
bool matches_pattern(const std::string& path, const std::string& pattern);

struct ChosenFiles {
  std::vector<RemoteFile> files;  // by path
  std::string gguf;  // the GGUF file to load (the first of its parts); "" for a folder of safetensors
};

// With patterns: what they say. Without: safetensors with their configuration, tokenizer and templates; a
// repository of GGUF files gives one of them (with all its parts), the one `choice.gguf` names, else the
// first of Q4_K_M, Q4_0, Q8_0 that there is, else the only one. Errors: not_found (nothing matches, no such
// GGUF; lists what there is), invalid_argument (several match; lists them).
base::Result<ChosenFiles> choose_files(const RemoteRepository& repository, const FileChoice& choice);

}  // namespace rafter::hub

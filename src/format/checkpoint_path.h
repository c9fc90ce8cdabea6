// What a path on the command line means: a model folder, a .gguf file, a file inside a model folder, or a
// repository of the Hugging Face cache (models--ORG--NAME).
#pragma once

#include <string>

#include "base/result.h"

namespace rafter::format {

enum class Container { safetensors, gguf };

struct CheckpointPath {
  Container container = Container::safetensors;
  std::string path;  // the folder (safetensors) or the file (GGUF)
};

// Errors: not_found, invalid_argument (several candidates: they are listed), unsupported (another kind of
// file). Hints say what was there instead.
base::Result<CheckpointPath> resolve_checkpoint_path(const std::string& path);

// folder/name, if it may be opened: a snapshot of the Hugging Face cache is made of links, and one that
// leaves its repository is refused. The file itself need not exist. `name` is one path component of ours or a
// validated one.
base::Result<std::string> file_in_folder(const std::string& folder, const std::string& name);

}  // namespace rafter::format

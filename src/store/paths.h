// Where this program keeps its state and where models may already lie, from the environment.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::store {

// $XDG_CACHE_HOME/rafter, else $HOME/.cache/rafter. Error: neither variable is set.
base::Result<std::string> cache_directory();

// The Hugging Face hub's cache: $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
// $HOME/.cache/huggingface/hub. Error as above.
base::Result<std::string> hugging_face_hub_directory();

// Absolute, without "." and "..", symbolic links resolved where they exist; a path that does not exist is
// made absolute.
std::string normalized_path(const std::string& path);

}  // namespace rafter::store

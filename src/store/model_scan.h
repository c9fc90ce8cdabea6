// Finding model files on disk by their names alone; nothing is opened.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::store {

struct FoundModel {
  std::string path;  // absolute: a folder with config.json and *.safetensors, or a .gguf file
  std::string
      name;  // "org/name" in a Hugging Face cache, else the folder's name or the file's without its extension
};

// The models of a Hugging Face cache (models--ORG--NAME/snapshots/COMMIT): of each repository the snapshot
// that refs/main names, else the newest. A snapshot with a link that leads out of its repository is passed
// over. A folder that does not exist holds no models.
std::vector<FoundModel> scan_hugging_face_cache(const std::string& hub_directory);

// The models at `path`: itself, or what is below it to a depth of 4 folders. Hidden folders and links to
// folders are not entered. A GGUF file in several parts is found by its first. Error: not_found (no such
// path).
base::Result<std::vector<FoundModel>> scan_path(const std::string& path);

}  // namespace rafter::store

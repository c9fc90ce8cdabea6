// Builds a Checkpoint from each container. Checkpoint::open chooses.
#pragma once

#include <string>

#include "format/checkpoint.h"

namespace rafter::format {

class SafetensorsReader {
 public:
  // A folder with config.json. Weights: the index's shards, else model.safetensors, else model*.safetensors;
  // other safetensors in the folder (adapters, vision towers) are left alone.
  static base::Result<Checkpoint> open(const std::string& folder);

 private:
  static base::Status add_file(Checkpoint& checkpoint, const std::string& path);
};

class GgufReader {
 public:
  // A .gguf file; a split file is joined from its parts.
  static base::Result<Checkpoint> open(const std::string& path);

 private:
  static base::Status add_file(Checkpoint& checkpoint, const std::string& path, int64_t part, int64_t parts);
};

}  // namespace rafter::format

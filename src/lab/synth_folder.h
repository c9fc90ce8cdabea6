// The folder that a synthetic checkpoint is written into: refused when it holds something, checked for room,
// and left as it was found when the writing fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::lab {

// The weights, configuration and tokenizer of a safetensors checkpoint: read together with a new one, they
// would spoil it.
bool is_safetensors_checkpoint_file(const std::string& name);

class SynthFolder {
 public:
  // Says by its name whether a file gives way to the new checkpoint.
  using Replaces = std::function<bool(const std::string& name)>;

  // Makes the folder, with its parents. `bytes`: what will be written, for the check of free space.
  // `force`: take a folder that is not empty, and remove the files that give way (and what a broken run left
  // of them); the others stay.
  // Errors: invalid_argument (not empty, not a folder), io (no room: with the numbers; the system's).
  static base::Result<SynthFolder> prepare(const std::string& path, uint64_t bytes, bool force,
                                           const Replaces& replaces);

  SynthFolder(SynthFolder&& other) noexcept;
  SynthFolder& operator=(SynthFolder&&) = delete;
  // Unless keep() was called: removes the files that were added, and the folder if it was made.
  ~SynthFolder();

  // The path of a file to be written, which belongs to this folder's content from now on.
  std::string add(const std::string& name);
  // Writes a small file, synced.
  base::Status write_blocking(const std::string& name, std::string_view text);

  // The content is complete.
  void keep() { kept_ = true; }

  const std::string& path() const { return path_; }
  const std::vector<std::string>& files() const { return files_; }  // names, in the order of add()
  uint64_t bytes() const;                                           // of the files, as they are on disk

 private:
  explicit SynthFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<std::string> files_;
  bool made_ = false, kept_ = false;
};

}  // namespace rafter::lab

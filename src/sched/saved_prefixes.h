// Prefixes in files of a folder, so that conversations outlive the process (`rafter serve
// --prompt-cache-dir`). A file is one sequence (cache/sequence_file.h); several models and servers may share
// a folder: each reads its own model's files only, and files appear whole or not at all.
//
// What goes wrong with a file is said and costs no more than the file: a prefix that is not saved, or is
// computed again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/step_engine.h"

namespace rafter::sched {

class SavedPrefixes {
 public:
  struct Options {
    std::string folder;  // made if it is not there
    int64_t bytes = 0;   // of all files in it; those that were not used for longest give way
    std::function<void(const std::string& line)> log = {};
  };
  // Lists the folder. `engine` must outlive it. Errors: io (the folder cannot be made, read or written).
  static base::Result<SavedPrefixes> open(decode::StepEngine& engine, Options options);

  struct File {
    std::string path;
    int64_t bytes = 0;
    int64_t used = 0;  // nanoseconds since the epoch
    bool is_ours = false;
    cache::SequenceHead head;  // of ours
  };
  const std::vector<File>& files() const { return files_; }

  // Of the file from which most of these tokens can be had, and how many; "" if fewer than `least`.
  struct Match {
    std::string path;
    int64_t tokens = 0;
  };
  Match find(const std::string& space, std::span<const int32_t> tokens, int64_t least) const;

  // A new sequence of the engine. A file that cannot be loaded is forgotten, one that is damaged deleted;
  // with out_of_memory it stays. Blocks.
  base::Result<engine::Engine::LoadedSequence> load_blocking(const std::string& path);

  // Saves a sequence of the engine that holds these tokens, and deletes the files that it makes useless.
  // Failures are logged. Blocks.
  void save_blocking(const std::string& space, std::span<const int32_t> tokens, int32_t sequence);

 private:
  SavedPrefixes(decode::StepEngine& engine, Options options)
      : engine_(&engine), options_(std::move(options)) {}
  void list(const std::string& path);
  void remove(size_t index);
  void remove_covered(const std::string& space, std::span<const int32_t> tokens, int32_t sequence);
  void trim(const std::string& spared);
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  decode::StepEngine* engine_;
  Options options_;
  std::vector<File> files_;
};

}  // namespace rafter::sched

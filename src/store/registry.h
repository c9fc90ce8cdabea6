// The models this machine has: a SQLite table of what was found or added, and the lookup from what a user
// types to a path. Derived data: it can be deleted and scanned anew, except for the aliases a user gave.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace rafter::store {

struct ModelRecord {
  std::string path;          // absolute: a folder or a .gguf file
  std::string name;          // "org/name", or the folder's or file's own name
  std::string container;     // "safetensors", "gguf"
  std::string architecture;  // as the checkpoint says: "llama", "qwen3"
  std::string quantization;  // "bf16", "q4g64", "q4_0", mixtures joined by '+'
  int64_t parameters = 0;    // weight elements
  int64_t bytes = 0;         // of the weight files
  int64_t context = 0;       // most positions the checkpoint says; 0: it does not
  std::string revision;      // the commit of a hub's snapshot; "" elsewhere
  std::string capabilities;  // of the checkpoint: those of "chat tools thinking vision audio embedding"
  bool supported = true;     // whether this program runs the architecture
  int64_t added_at = 0;      // Unix seconds; 0: filled in when added
  std::vector<std::string> weight_files;  // absolute, ascending; none known of records before version 3
  bool missing = false;                   // the path was gone at the last look
  std::vector<std::string> aliases;       // ascending
};

// The weight files of the record that are not there now: removed, or links to a blob that is gone.
std::vector<std::string> missing_files(const ModelRecord& record);

class ModelRegistry {
 public:
  // `path`: the SQLite file, created when absent. Errors: io, unsupported (written by a newer program).
  static base::Result<ModelRegistry> open(const std::string& path);
  // $XDG_CACHE_HOME/rafter/registry.sqlite
  static base::Result<ModelRegistry> open_default();

  ModelRegistry(ModelRegistry&&) noexcept;
  ModelRegistry& operator=(ModelRegistry&&) noexcept;
  ~ModelRegistry();

  // Adds the record or replaces the one of the same path (keeping its aliases and added_at); `aliases` are
  // not read.
  base::Status put(const ModelRecord& record);

  // Points `alias` at a recorded path; an alias that pointed elsewhere is moved.
  // Errors: invalid_argument (empty, over 128 bytes, a '/' or a control character), not_found (no record of
  // that path).
  base::Status set_alias(const std::string& alias, const std::string& path);

  // Forgets a record and its aliases; nothing happens when there is none.
  base::Status remove(const std::string& path);

  // Every record, by name.
  base::Result<std::vector<ModelRecord>> list() const;

  // The record `query` names. First match of: its path; an alias; a name, exactly, without regard to case;
  // names and aliases that contain it, without regard to case. Missing ones match only `with_missing`, for
  // forgetting them. Errors: not_found
  // (hint: how to add models), invalid_argument (several contain it: lists them).
  base::Result<ModelRecord> find(const std::string& query, bool with_missing = false) const;

  // Looks whether each path still exists. Records without an alias are forgotten when theirs is gone; records
  // with one are marked missing, or found again. Returns how many were forgotten.
  base::Result<int> reap_missing();

 private:
  struct Impl;
  explicit ModelRegistry(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rafter::store

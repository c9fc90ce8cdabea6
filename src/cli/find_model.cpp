#include "cli/find_model.h"

#include <filesystem>

#include "cli/terminal.h"
#include "store/paths.h"
#include "store/registry.h"

namespace rafter::cli {
namespace {

namespace fs = std::filesystem;

// A file, or a folder that is meant: one with a config.json, or written as a path. A bare word that happens
// to name some other folder here is still looked up.
bool names_a_path(const std::string& query) {
  std::error_code failed;
  const fs::file_status status = fs::status(query, failed);
  if (!fs::is_directory(status)) return fs::exists(status);  // a pipe, too: opening it says what it is
  return query.find('/') != std::string::npos || fs::exists(fs::path(query) / "config.json", failed);
}

}  // namespace

base::Result<NamedModel> find_model(const std::string& query) {
  if (names_a_path(query)) {
    return NamedModel{query, one_line(fs::path(store::normalized_path(query)).filename().string())};
  }
  RAFTER_ASSIGN(const store::ModelRegistry registry, store::ModelRegistry::open_default());
  RAFTER_ASSIGN(const store::ModelRecord record, registry.find(query));
  return NamedModel{record.path, one_line(record.aliases.empty() ? record.name : record.aliases.front())};
}

}  // namespace rafter::cli

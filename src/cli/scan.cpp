// rafter scan: find models on disk and register them.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/model_table.h"
#include "cli/register_models.h"
#include "cli/verb.h"
#include "store/paths.h"

namespace rafter::cli {
namespace {

struct ScanFlags {
  std::vector<std::string> paths;
  std::string name;
  bool json = false;
};

void append(std::vector<store::FoundModel>& all, const std::vector<store::FoundModel>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// The given paths, or the places where models usually lie.
base::Result<std::vector<store::FoundModel>> find_all(const std::vector<std::string>& paths) {
  std::vector<store::FoundModel> found;
  for (const std::string& path : paths) {
    RAFTER_ASSIGN(const auto here, store::scan_path(path));
    append(found, here);
  }
  if (!paths.empty()) return found;
  RAFTER_ASSIGN(const std::string hub, store::hugging_face_hub_directory());
  append(found, store::scan_hugging_face_cache(hub));
  RAFTER_ASSIGN(const std::string cache, store::cache_directory());
  std::error_code failed;
  if (std::filesystem::is_directory(cache + "/models", failed)) {
    RAFTER_ASSIGN(const auto own, store::scan_path(cache + "/models"));
    append(found, own);
  }
  return found;
}

base::Status run(const ScanFlags& flags) {
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  std::vector<store::ModelRecord> recorded;
  int forgotten = 0;
  if (!flags.name.empty()) {
    if (flags.paths.size() != 1) {
      return base::Error{base::ErrorCode::invalid_argument, "needs exactly one path", "--name", ""};
    }
    RAFTER_ASSIGN(store::ModelRecord record, register_under_name(registry, flags.name, flags.paths.front()));
    recorded.push_back(std::move(record));
  } else {
    RAFTER_ASSIGN(const auto found, find_all(flags.paths));
    RAFTER_ASSIGN(recorded, register_models(registry, found));
    RAFTER_ASSIGN(forgotten, registry.reap_missing());
  }
  if (flags.json) {
    std::cout << model_json(recorded);
    return {};
  }
  if (!recorded.empty()) std::cout << model_table(recorded);
  std::cout << fmt::format("registered {} model{}", recorded.size(), recorded.size() == 1 ? "" : "s");
  if (forgotten > 0) std::cout << fmt::format(", forgot {} that are gone", forgotten);
  std::cout << "\n";
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<ScanFlags>();
  app.add_option("path", flags->paths,
                 "folders or files to look at (default: the Hugging Face cache and rafter's own folder)");
  app.add_option("--name", flags->name, "register the one model at PATH under this name");
  app.add_flag("--json", flags->json, "print a JSON array of what was registered");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kScanVerb{"scan", "find models on disk and register them",
                     "  rafter scan\n"
                     "  rafter scan ~/models /mnt/models\n"
                     "  rafter scan --name mine ~/models/some-model\n",
                     define};

}  // namespace rafter::cli

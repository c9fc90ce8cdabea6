// rafter models: what is registered.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/model_table.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

struct ModelsFlags {
  bool json = false;
};

base::Status run(const ModelsFlags& flags) {
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  RAFTER_TRY(registry.reap_missing());
  RAFTER_ASSIGN(const auto records, registry.list());
  std::cout << (flags.json ? model_json(records) : model_table(records));
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<ModelsFlags>();
  app.add_flag("--json", flags->json, "print a JSON array");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kModelsVerb{"models", "list the registered models",
                       "  rafter models\n"
                       "  rafter models --json | jq -r '.[].path'\n",
                       define};

}  // namespace rafter::cli

// rafter models: what is registered, and forgetting it.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/model_table.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

struct ModelsFlags {
  std::string forget;
  bool json = false;
};

base::Status run(const ModelsFlags& flags) {
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  if (!flags.forget.empty()) {
    RAFTER_ASSIGN(const store::ModelRecord record, registry.find(flags.forget, /*with_missing=*/true));
    RAFTER_TRY(registry.remove(record.path));
    std::cout << (flags.json ? model_json({record})
                             : fmt::format("forgot {}; its files stay at {}\n", one_line(record.name),
                                           one_line(record.path)));
    return {};
  }
  RAFTER_TRY(registry.reap_missing());
  RAFTER_ASSIGN(const auto records, registry.list());
  std::cout << (flags.json ? model_json(records) : model_table(records));
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<ModelsFlags>();
  app.add_option("--forget", flags->forget, "take one off the list, by name or path; its files stay");
  app.add_flag("--json", flags->json, "print a JSON array");
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kModelsVerb{"models", "list the registered models",
                       "  rafter models\n"
                       "  rafter models --json | jq -r '.[].path'\n"
                       "  rafter models --forget old-model\n",
                       define};

}  // namespace rafter::cli

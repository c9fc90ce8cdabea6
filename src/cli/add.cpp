// rafter add: register one model under a name.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/register_models.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace rafter::cli {
namespace {

struct AddFlags {
  std::string name, path;
};

base::Status run(const AddFlags& flags) {
  RAFTER_ASSIGN(store::ModelRegistry registry, store::ModelRegistry::open_default());
  RAFTER_ASSIGN(const store::ModelRecord record, register_under_name(registry, flags.name, flags.path));
  std::cout << fmt::format("{} is {}\n", one_line(flags.name), one_line(record.path));
  return {};
}

Action define(CLI::App& app) {
  auto flags = std::make_shared<AddFlags>();
  app.add_option("name", flags->name, "the name to use from now on")->required();
  app.add_option("path", flags->path, "a .gguf file, or a folder with config.json and safetensors")
      ->required();
  return [flags] { return run(*flags); };
}

}  // namespace

const Verb kAddVerb{"add", "register one model under a name of your own",
                    "  rafter add mine ~/models/some-model\n"
                    "  rafter add tiny /tmp/tiny/llama3-tiny-q4_0.gguf\n",
                    define};

}  // namespace rafter::cli

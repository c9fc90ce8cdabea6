#include "cli/register_models.h"

#include "cli/interrupt.h"
#include "cli/model_facts.h"
#include "cli/terminal.h"

namespace rafter::cli {

base::Result<std::vector<store::ModelRecord>> register_models(store::ModelRegistry& registry,
                                                              const std::vector<store::FoundModel>& found) {
  const InterruptFlag interrupt;
  std::vector<store::ModelRecord> recorded;
  for (const store::FoundModel& model : found) {
    RAFTER_TRY(interrupt.check());
    auto record = read_model_facts(model);
    if (!record.ok()) {
      fmt::print(stderr, "rafter: passed over {}\n", one_line(record.error().message()));
      continue;
    }
    RAFTER_TRY(registry.put(*record));
    recorded.push_back(std::move(*record));
  }
  return recorded;
}

base::Result<store::ModelRecord> register_under_name(store::ModelRegistry& registry, const std::string& name,
                                                     const std::string& path) {
  RAFTER_ASSIGN(const auto found, store::scan_path(path));
  if (found.empty()) {
    return base::Error{base::ErrorCode::not_found, "no model here", path,
                       "a model is a .gguf file, or a folder with config.json and safetensors"};
  }
  if (found.size() > 1) {
    std::string list;
    for (size_t i = 0; i < found.size() && i < 8; ++i) list += (i == 0 ? "" : ", ") + found[i].path;
    return base::Error{base::ErrorCode::invalid_argument,
                       fmt::format("{} models are here: {}", found.size(), list), path,
                       "give the path of one"};
  }
  RAFTER_ASSIGN(store::ModelRecord record, read_model_facts(found.front()));
  RAFTER_TRY(registry.put(record));
  RAFTER_TRY(registry.set_alias(name, record.path));
  record.aliases = {name};
  return record;
}

}  // namespace rafter::cli

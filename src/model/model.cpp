#include "model/model.h"

#include "base/check.h"
#include "model/config.h"
#include "model/families.h"

namespace rafter::model {
namespace {

struct Architecture {
  std::string_view model_type;
  Loader* load;
};

#define RAFTER_ROW(name, loader) {name, loader},
constexpr Architecture kArchitectures[] = {RAFTER_MODEL_FAMILIES(RAFTER_ROW)};
#undef RAFTER_ROW

}  // namespace

std::vector<std::string_view> supported_architectures() {
  std::vector<std::string_view> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.model_type);
  return names;
}

void Model::emit_draft(plan::Emitter&) const {
  RAFTER_CHECK(false, "{} has no draft head", info().model_type);
}

base::Result<std::shared_ptr<const Model>> load_model(const format::Checkpoint& checkpoint) {
  RAFTER_ASSIGN(const Config config, Config::from_checkpoint(checkpoint));
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type != config.model_type()) continue;
    auto model = architecture.load(checkpoint, config);
    RAFTER_TRY(checkpoint.check_not_cut());  // else what could not be read counts as zeros, or as damage
    return model;
  }
  std::string supported;
  for (std::string_view name : supported_architectures())
    supported += (supported.empty() ? "" : ", ") + std::string(name);
  return base::Error{base::ErrorCode::unsupported,
                     fmt::format("model type \"{}\" is not supported", config.model_type()), config.where(),
                     "supported: " + supported};
}

}  // namespace rafter::model

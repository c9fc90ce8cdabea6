// Reading the facts of found models and recording them.
#pragma once

#include <string>
#include <vector>

#include "store/model_scan.h"
#include "store/registry.h"

namespace rafter::cli {

// Records every model that opens; the others are named on standard error and passed over. Returns the
// recorded ones.
base::Result<std::vector<store::ModelRecord>> register_models(store::ModelRegistry& registry,
                                                              const std::vector<store::FoundModel>& found);

// Records the one model at `path` under the alias `name`.
// Errors: not_found (no model there), invalid_argument (several: lists them), what makes the model
// unreadable.
base::Result<store::ModelRecord> register_under_name(store::ModelRegistry& registry, const std::string& name,
                                                     const std::string& path);

}  // namespace rafter::cli

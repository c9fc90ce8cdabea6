// From what a user types to a model's path.
#pragma once

#include <string>

#include "base/result.h"

namespace rafter::cli {

struct NamedModel {
  std::string path;
  std::string name;  // for people: the registered name or alias, else the path's last part
};

// A path that exists is taken as it is; anything else is looked up in the registry.
// Errors: not_found, invalid_argument (several models match; lists them), and the registry's.
base::Result<NamedModel> find_model(const std::string& query);

}  // namespace rafter::cli

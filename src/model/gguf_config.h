// GGUF metadata → the config.json it was converted from.
#pragma once

#include <string>

#include "base/result.h"
#include "format/checkpoint.h"

namespace rafter::model {

// Errors: invalid_data (a required key is missing or ill-typed), unsupported (a rope scaling type without a
// name here).
base::Result<std::string> gguf_config_json(const format::Checkpoint& checkpoint);

}  // namespace rafter::model

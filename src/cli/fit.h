// What `rafter fit --json` prints and the server's /fit answers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lab/fit.h"

namespace rafter::cli {

nlohmann::ordered_json fit_json(const std::string& model, const lab::FitReport& report);

}  // namespace rafter::cli

// The parts of `rafter roofline`: one source file each, listed in roofline.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/verb.h"
#include "lab/step_probe.h"

namespace rafter::cli {

// Each adds its sub-verb's flags to `app` and returns what runs when it was named.
Action define_roofline_bw(CLI::App& app);
Action define_roofline_step(CLI::App& app);
Action define_roofline_bytes(CLI::App& app);
Action define_roofline_table(CLI::App& app);

// A step's figures without its ops, as `step` and `table` print them.
nlohmann::ordered_json step_json(const std::string& model, const lab::StepFigures& figures);

}  // namespace rafter::cli

// The parts of `rafter roofline`: one source file each, listed in roofline.cpp.
#pragma once

#include "cli/verb.h"

namespace rafter::cli {

// Each adds its sub-verb's flags to `app` and returns what runs when it was named.
Action define_roofline_bw(CLI::App& app);
Action define_roofline_step(CLI::App& app);
Action define_roofline_bytes(CLI::App& app);
Action define_roofline_table(CLI::App& app);

}  // namespace rafter::cli

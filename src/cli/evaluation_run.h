// What every record of a measurement begins with.
#pragma once

#include <string>

#include "cli/find_model.h"
#include "lab/machine_load.h"
#include "store/evaluations.h"

namespace rafter::cli {

// A run of now, of this program on this machine with `threads`, without figures.
store::EvaluationRun begin_run(const std::string& kind, const NamedModel& model, int threads,
                               const lab::MachineLoad::Report& load);

}  // namespace rafter::cli

// Both roofs of this machine, quickly: about two seconds.
#pragma once

#include <string>

#include "base/cpu_info.h"
#include "base/result.h"
#include "lab/machine_load.h"

namespace rafter::lab {

struct Roofs {
  double raw_read_gbps = 0;
  double peak_tops = 0;          // of the best instruction with at least bf16 inputs
  std::string peak_instruction;  // "bf16 dot"
  MachineLoad::Report load;
};

// Errors: out_of_memory (256 MiB and no room for them).
base::Result<Roofs> measure_roofs_blocking(base::CpuTier tier, int threads);

}  // namespace rafter::lab

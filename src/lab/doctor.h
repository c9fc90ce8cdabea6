// What stands between this machine and its speed: each finding with what it costs and how to mend it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/machine_load.h"

namespace rafter::lab {

enum class FindingLevel { fine, note, warning };

struct Finding {
  std::string
      subject;  // "isa", "cores", "memory_nodes", "huge_pages", "limits", "memory", "disk", "roofs", "gpu"
  FindingLevel level = FindingLevel::fine;
  std::string what;  // "avx512 kernels"
  std::string cost;  // what it costs; empty if nothing
  std::string mend;  // how to mend it; empty if there is nothing to do
};

struct DoctorOptions {
  std::vector<std::string> folders;  // whose file systems must have room
  bool measure = true;               // the roofs, in about two seconds
};

struct DoctorReport {
  std::vector<Finding> findings;
  std::string processor, tier;
  int cores = 0;
  int64_t available_memory_bytes = 0;
  double raw_read_gbps = 0, peak_tops = 0;  // zeros when not measured
  std::string peak_instruction;
  MachineLoad::Report load;
};

// Errors: invalid_argument (RAFTER_ISA). What the system does not tell is left out.
base::Result<DoctorReport> examine_machine(const DoctorOptions& options);

const char* finding_level_name(FindingLevel level);  // "warning"

// --- the readings, of text as the kernel writes it
// "always [madvise] never" → "madvise"; "" if nothing is chosen.
std::string chosen_of(const std::string& text);
// "0-3,8" → 5; 0 if it is no such list.
int count_of_list(const std::string& text);

}  // namespace rafter::lab

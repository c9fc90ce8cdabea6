// The CPU kernels, one table per instruction-set tier.
#pragma once

#include "base/cpu_info.h"
#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

// The table of a tier that this machine supports (base::best_tier() and below).
const KernelTable& cpu_kernels(base::CpuTier tier);

}  // namespace rafter::kernels

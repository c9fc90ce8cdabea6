// The reference kernels: scalar code, double accumulation, one worker does the work. The oracle of every
// other body.
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

const KernelTable& reference_kernels();

}  // namespace rafter::kernels

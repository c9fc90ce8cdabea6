// The parts of the delta-net kernels that are the same in every tier.
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

void make_delta_gates(const DeltaGatesArgs&, Worker&);
KernelTable::Scratch delta_scratch(const GatedDeltaArgs&);

}  // namespace rafter::kernels

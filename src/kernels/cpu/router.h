// The router's body, the same for every tier: compiled once, for the baseline.
#pragma once

#include "kernels/op/router.h"

namespace rafter::kernels {

void route_rows(const RouterArgs&, Worker&);

}  // namespace rafter::kernels

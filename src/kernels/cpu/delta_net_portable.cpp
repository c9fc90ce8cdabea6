#define RAFTER_TIER portable
#include "kernels/cpu/delta_net-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_delta_net_kernels_portable(KernelTable& table) { portable::add_delta_net_kernels(table); }
}  // namespace rafter::kernels

#define RAFTER_TIER avx2
#include "kernels/cpu/delta_net-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_delta_net_kernels_avx2(KernelTable& table) { avx2::add_delta_net_kernels(table); }
}  // namespace rafter::kernels

#define RAFTER_TIER avx512
#include "kernels/cpu/delta_net-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_delta_net_kernels_avx512(KernelTable& table) { avx512::add_delta_net_kernels(table); }
}  // namespace rafter::kernels

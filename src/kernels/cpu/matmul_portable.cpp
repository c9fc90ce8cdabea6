#define RAFTER_TIER portable
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_matmul_kernels_portable(KernelTable& table) { portable::add_matmul_kernels(table); }
}  // namespace rafter::kernels

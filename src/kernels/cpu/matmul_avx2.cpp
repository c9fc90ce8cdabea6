#define RAFTER_TIER avx2
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_matmul_kernels_avx2(KernelTable& table) { avx2::add_matmul_kernels(table); }
}  // namespace rafter::kernels

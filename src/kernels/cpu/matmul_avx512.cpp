#define RAFTER_TIER avx512
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_matmul_kernels_avx512(KernelTable& table) { avx512::add_matmul_kernels(table); }
}  // namespace rafter::kernels

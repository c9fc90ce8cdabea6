#define RAFTER_TIER avx2
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_row_kernels_avx2(KernelTable& table) { avx2::add_row_kernels(table); }
}  // namespace rafter::kernels

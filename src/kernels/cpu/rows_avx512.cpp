#define RAFTER_TIER avx512
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_row_kernels_avx512(KernelTable& table) { avx512::add_row_kernels(table); }
}  // namespace rafter::kernels

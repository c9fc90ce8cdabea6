#define RAFTER_TIER portable
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_row_kernels_portable(KernelTable& table) { portable::add_row_kernels(table); }
}  // namespace rafter::kernels

#define RAFTER_TIER avx2
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_attention_kernels_avx2(KernelTable& table) { avx2::add_attention_kernels(table); }
}  // namespace rafter::kernels

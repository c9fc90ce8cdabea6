#define RAFTER_TIER avx512
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_attention_kernels_avx512(KernelTable& table) { avx512::add_attention_kernels(table); }
}  // namespace rafter::kernels

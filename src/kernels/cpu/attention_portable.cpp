#define RAFTER_TIER portable
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
void add_attention_kernels_portable(KernelTable& table) { portable::add_attention_kernels(table); }
}  // namespace rafter::kernels

#define RAFTER_TIER avx512
#include "kernels/cpu/probes-inl.h"

namespace rafter::kernels {
CpuProbes cpu_probes_avx512() { return avx512::probes(); }
}  // namespace rafter::kernels

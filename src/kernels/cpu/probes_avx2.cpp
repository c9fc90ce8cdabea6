#define RAFTER_TIER avx2
#include "kernels/cpu/probes-inl.h"

namespace rafter::kernels {
CpuProbes cpu_probes_avx2() { return avx2::probes(); }
}  // namespace rafter::kernels

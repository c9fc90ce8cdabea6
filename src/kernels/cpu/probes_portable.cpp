#define RAFTER_TIER portable
#include "kernels/cpu/probes-inl.h"

namespace rafter::kernels {
CpuProbes cpu_probes_portable() { return portable::probes(); }
}  // namespace rafter::kernels

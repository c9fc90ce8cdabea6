#include "kernels/cpu/probes.h"

namespace rafter::kernels {

CpuProbes cpu_probes(base::CpuTier tier) {
  switch (tier) {
#if defined(__x86_64__)
    case base::CpuTier::avx512:
      return cpu_probes_avx512();
    case base::CpuTier::avx2:
      return cpu_probes_avx2();
#endif
    default:
      return cpu_probes_portable();
  }
}

}  // namespace rafter::kernels

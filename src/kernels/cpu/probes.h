// What the cores can do at most: readers and arithmetic that no kernel can beat. The roofline's own roofs are
// measured with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_info.h"

namespace rafter::kernels {

// Reads `bytes` (a multiple of kReadGranule) from 64-byte aligned memory on the calling thread. The result
// depends on every byte, so that the read happens.
struct ReadProbe {
  const char* name;  // "8 streams, 1 KiB ahead"
  uint64_t (*run)(const std::byte* data, int64_t bytes);
};
inline constexpr int64_t kReadGranule = 8 * 1024;

// `rounds` rounds of independent chains of one instruction on the calling thread.
struct PeakProbe {
  const char* name;              // "fp32 fma", "bf16 dot", "int8 dot"
  double operations_per_round;   // a multiply-add counts two
  float (*run)(int64_t rounds);  // the result depends on every chain
};

struct CpuProbes {
  std::span<const ReadProbe> readers;
  std::span<const PeakProbe> peaks;
};

// Those of a tier that this machine supports.
CpuProbes cpu_probes(base::CpuTier tier);

CpuProbes cpu_probes_portable();
CpuProbes cpu_probes_avx2();
CpuProbes cpu_probes_avx512();

}  // namespace rafter::kernels

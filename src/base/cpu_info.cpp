#include "base/cpu_info.h"

#include <cstdlib>
#include <fstream>

#include <sched.h>

namespace rafter::base {
namespace {

bool supports(CpuTier tier) {
  switch (tier) {
    case CpuTier::portable:
      return true;
#if defined(__x86_64__)
    case CpuTier::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case CpuTier::avx512:
      return supports(CpuTier::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
             __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
#else
    default:
      return false;
#endif
  }
  return false;
}

}  // namespace

const char* cpu_tier_name(CpuTier tier) {
  switch (tier) {
    case CpuTier::portable:
      return "portable";
    case CpuTier::avx2:
      return "avx2";
    case CpuTier::avx512:
      return "avx512";
  }
  return "?";
}

std::vector<CpuTier> supported_tiers() {
  std::vector<CpuTier> tiers;
  for (CpuTier tier : {CpuTier::portable, CpuTier::avx2, CpuTier::avx512}) {
    if (supports(tier)) tiers.push_back(tier);
  }
  return tiers;
}

Result<CpuTier> select_tier() {
  const char* wanted = std::getenv("RAFTER_ISA");
  if (wanted == nullptr || *wanted == '\0') return supported_tiers().back();
  for (CpuTier tier : {CpuTier::portable, CpuTier::avx2, CpuTier::avx512}) {
    if (std::string_view(wanted) != cpu_tier_name(tier)) continue;
    if (supports(tier)) return tier;
    return Error{ErrorCode::invalid_argument, fmt::format("this machine has no {}", wanted), "RAFTER_ISA",
                 fmt::format("the best tier here is {}", cpu_tier_name(supported_tiers().back()))};
  }
  return Error{ErrorCode::invalid_argument, fmt::format("unknown tier \"{}\"", wanted), "RAFTER_ISA",
               "use portable, avx2 or avx512"};
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

std::string cpu_model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace rafter::base

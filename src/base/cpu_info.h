// What the processor can do: instruction-set tiers and cores, read once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rafter::base {

// Kernel tiers from least to best. avx2 means AVX2 + FMA + F16C; avx512 means AVX-512 F/BW/DQ/VL + VBMI +
// VNNI + BF16.
enum class CpuTier { portable, avx2, avx512 };

const char* cpu_tier_name(CpuTier tier);  // "avx512"

// Every tier this machine can run, least first. Always holds `portable`.
std::vector<CpuTier> supported_tiers();

// The tier to use: the best supported one, or what RAFTER_ISA names (portable, avx2, avx512).
// Error: RAFTER_ISA names an unknown tier or one that this machine lacks.
Result<CpuTier> select_tier();

// Cores this process may run on (its affinity mask), at least 1.
int usable_cores();

// "AMD EPYC …" or "unknown".
std::string cpu_model_name();

}  // namespace rafter::base

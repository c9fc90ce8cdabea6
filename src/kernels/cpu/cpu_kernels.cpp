#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/tiers.h"

namespace rafter::kernels {
namespace {

KernelTable make_table(base::CpuTier tier) {
  KernelTable table;
  table.name = base::cpu_tier_name(tier);
  switch (tier) {
#if defined(__x86_64__)
    case base::CpuTier::avx512:
      add_row_kernels_avx512(table);
      add_attention_kernels_avx512(table);
      add_delta_net_kernels_avx512(table);
      add_matmul_kernels_avx512(table);
      return table;
    case base::CpuTier::avx2:
      add_row_kernels_avx2(table);
      add_attention_kernels_avx2(table);
      add_delta_net_kernels_avx2(table);
      add_matmul_kernels_avx2(table);
      return table;
#endif
    default:
      add_row_kernels_portable(table);
      add_attention_kernels_portable(table);
      add_delta_net_kernels_portable(table);
      add_matmul_kernels_portable(table);
      return table;
  }
}

}  // namespace

const KernelTable& cpu_kernels(base::CpuTier tier) {
  static const KernelTable portable = make_table(base::CpuTier::portable);
  static const KernelTable avx2 = make_table(base::CpuTier::avx2);
  static const KernelTable avx512 = make_table(base::CpuTier::avx512);
  switch (tier) {
    case base::CpuTier::avx512:
      return avx512;
    case base::CpuTier::avx2:
      return avx2;
    default:
      return portable;
  }
}

}  // namespace rafter::kernels

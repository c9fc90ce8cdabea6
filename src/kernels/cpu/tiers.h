// What each tier's files add to its kernel table. One function per op family and tier; the file's suffix is
// the tier.
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

// Rows: embed, rms_norm, rope_angles, rope, rope_append, kv_append, swiglu, geglu, scale,
// softcap, add, select_rows, router.
void add_row_kernels_portable(KernelTable&);
void add_row_kernels_avx2(KernelTable&);
void add_row_kernels_avx512(KernelTable&);

// short_convolution, l2_norm, delta_gates, gated_delta, gated_rms_norm, split_gate, sigmoid_gate,
// gated_delta_scratch.
void add_delta_net_kernels_portable(KernelTable&);
void add_delta_net_kernels_avx2(KernelTable&);
void add_delta_net_kernels_avx512(KernelTable&);

// attention, row_attention, attention_scratch.
void add_attention_kernels_portable(KernelTable&);
void add_attention_kernels_avx2(KernelTable&);
void add_attention_kernels_avx512(KernelTable&);

// matmul, fused_matmul, experts, their scratch, supports_format, matmul_kernel_name.
void add_matmul_kernels_portable(KernelTable&);
void add_matmul_kernels_avx2(KernelTable&);
void add_matmul_kernels_avx512(KernelTable&);

}  // namespace rafter::kernels

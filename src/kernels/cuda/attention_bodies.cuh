// The bodies that attention.cu chooses among.
#pragma once

#include "kernels/cuda/cuda_kernels.h"

namespace rafter::kernels::cuda {

// Few rows: a block per row and kv head. Scratch in bytes, for the parts of splits.
bool supports_attention_rows(const AttentionArgs& a, const CudaLaunch& l);
int64_t attention_rows_scratch(const AttentionArgs& a, const CudaLaunch& l);
// With `rope`, whose queries the attention takes: that op too; for steps of one row.
template <int kHeadDim>
void attention_rows(const AttentionArgs& a, const RopeAppendArgs* rope, const CudaLaunch& l);

// Many: a block per 64 rows and head.
template <int kHeadDim>
void attention_prompt(const AttentionArgs& a, const CudaLaunch& l);

// Any head up to 256 wide, any cache of floats, in fp32: right, not fast.
void attention_any(const AttentionArgs& a, const CudaLaunch& l);
bool supports_attention_any(const AttentionArgs& a);

}  // namespace rafter::kernels::cuda

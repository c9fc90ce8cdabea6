// The launchers behind the table of cuda_kernels.h.
#pragma once

#include "kernels/cuda/cuda_kernels.h"

namespace rafter::kernels::cuda {

void embed(const EmbedArgs& args, const CudaLaunch& launch);
void rms_norm(const RmsNormArgs& args, const CudaLaunch& launch);
void rope_angles(const RopeAnglesArgs& args, const CudaLaunch& launch);
void rope(const RopeArgs& args, const CudaLaunch& launch);
void kv_append(const KvAppendArgs& args, const CudaLaunch& launch);
void rope_append(const RopeAppendArgs& args, const CudaLaunch& launch);
void attention(const AttentionArgs& args, const CudaLaunch& launch);
void swiglu(const SwigluArgs& args, const CudaLaunch& launch);
void add(const AddArgs& args, const CudaLaunch& launch);
void select_rows(const SelectRowsArgs& args, const CudaLaunch& launch);
bool fuses_rope_attention(const RopeAppendArgs& rope, const AttentionArgs& attention,
                          const CudaLaunch& launch);
void rope_attention(const RopeAppendArgs& rope, const AttentionArgs& attention, const CudaLaunch& launch);
bool supports_attention(const AttentionArgs& args);
bool attention_gives_bf16(const AttentionArgs& args, const CudaLaunch& launch);
size_t attention_scratch(const AttentionArgs& args, const CudaLaunch& launch);

void matmul(const MatmulArgs& args, const CudaLaunch& launch);
bool fuses_matmul(const MatmulArgs& args);
bool takes_bf16(const MatmulArgs& args, const CudaLaunch& launch);
bool gives_bf16(const MatmulArgs& args, const CudaLaunch& launch);
size_t matmul_scratch(const MatmulArgs& args, const CudaLaunch& launch);
const char* matmul_kernel_name(const MatmulArgs& args, const CudaLaunch& launch);

void greedy(const GreedyArgs& args, const CudaLaunch& launch);
size_t greedy_scratch(int64_t capacity);

size_t relaid_bytes(const tensor::MatrixView& matrix);
void relay(const tensor::MatrixView& from, std::byte* to, const CudaLaunch& launch);

bool supports_format(const tensor::NumberFormat& format);

}  // namespace rafter::kernels::cuda

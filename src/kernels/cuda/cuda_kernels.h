// Launchers of the CUDA kernels. Arguments are those of kernels/op with every pointer a device address
// (StepInput and the row counts too); a launch reads the live row counts on the device, so a captured one
// serves every step of its bucket. A null entry, or a format that supports_format refuses, is refused when
// the plan is bound.
//
// Numerics: the contracts of kernels/op. Products of bf16 inputs with weights in tiles (weight_tiles.cuh) run
// on the tensor cores over exact codes, with one order of the sum for every number of rows; all others in
// fp32.
#pragma once

#include "kernels/op/attention.h"
#include "kernels/op/elementwise.h"
#include "kernels/op/embed.h"
#include "kernels/op/kv_cache.h"
#include "kernels/op/matmul.h"
#include "kernels/op/rms_norm.h"
#include "kernels/op/rope.h"

namespace rafter::kernels {

inline constexpr int64_t kLaunchCounters = 64 * 1024;

// Shared memory of a block that some kernel of every op is content with: what every GPU has from sm_80 on.
// (An A100 has 163 KiB, an H100 227.)
inline constexpr int64_t kLeastSharedBytes = 99 * 1024;

struct CudaLaunch {
  void* stream = nullptr;  // a cudaStream_t
  int64_t capacity = 0;    // rows of the bucket
  int multiprocessors = 0;
  int64_t shared_bytes = 0;   // of an SM's own memory that a block can get at most, kLeastSharedBytes or more
  int64_t max_positions = 0;  // what a row may attend to at most
  std::byte* scratch = nullptr;  // of the size that the op's scratch function gives, 256-byte aligned
  int32_t* counters = nullptr;   // kLaunchCounters zeros, which every kernel leaves as zeros
  // A value handed from one op to the next as bf16, in the buffer meant for floats: where takes_bf16 says so.
  bool bf16_in = false, bf16_out = false;
};

// What ends a step whose rows go on by themselves: row i's logits choose the next token of row i, lower
// tokens first among equals; the input block becomes that of the next step.
struct GreedyArgs {
  const StepInput* input = nullptr;  // its arrays are written
  const float* logits = nullptr;     // [rows, vocabulary]
  int64_t vocabulary = 0;
  int32_t* tokens = nullptr;  // [rows]
};

struct CudaKernels {
  void (*embed)(const EmbedArgs&, const CudaLaunch&) = nullptr;
  void (*rms_norm)(const RmsNormArgs&, const CudaLaunch&) = nullptr;
  void (*matmul)(const MatmulArgs&, const CudaLaunch&) = nullptr;  // fused forms where fuses_matmul says so
  void (*rope_angles)(const RopeAnglesArgs&, const CudaLaunch&) = nullptr;
  void (*rope)(const RopeArgs&, const CudaLaunch&) = nullptr;
  void (*kv_append)(const KvAppendArgs&, const CudaLaunch&) = nullptr;
  void (*rope_append)(const RopeAppendArgs&, const CudaLaunch&) = nullptr;
  void (*attention)(const AttentionArgs&, const CudaLaunch&) = nullptr;
  void (*swiglu)(const SwigluArgs&, const CudaLaunch&) = nullptr;
  void (*add)(const AddArgs&, const CudaLaunch&) = nullptr;
  void (*select_rows)(const SelectRowsArgs&, const CudaLaunch&) = nullptr;

  // rope_append and the attention that follows it as one launch, where fuses_rope_attention says so.
  void (*rope_attention)(const RopeAppendArgs&, const AttentionArgs&, const CudaLaunch&) = nullptr;
  bool (*fuses_rope_attention)(const RopeAppendArgs&, const AttentionArgs&, const CudaLaunch&) = nullptr;

  void (*greedy)(const GreedyArgs&, const CudaLaunch&) = nullptr;
  size_t (*greedy_scratch)(int64_t capacity) = nullptr;

  bool (*supports_format)(const tensor::NumberFormat&) = nullptr;
  bool (*supports_attention)(const AttentionArgs&) = nullptr;
  bool (*fuses_matmul)(const MatmulArgs&) = nullptr;
  size_t (*matmul_scratch)(const MatmulArgs&, const CudaLaunch&) = nullptr;  // a launch without its pointers
  size_t (*attention_scratch)(const AttentionArgs&, const CudaLaunch&) = nullptr;
  // "tensor_one_row", "tensor_rows", "tensor_prompt", "any"
  const char* (*matmul_kernel_name)(const MatmulArgs&, const CudaLaunch&) = nullptr;

  // Products that round their input to bf16 anyway may be given it so, by an op that can write it so.
  bool (*takes_bf16)(const MatmulArgs&, const CudaLaunch&) = nullptr;
  bool (*gives_bf16)(const MatmulArgs&, const CudaLaunch&) = nullptr;
  bool (*attention_gives_bf16)(const AttentionArgs&, const CudaLaunch&) = nullptr;

  // Matrices that the kernels want in a layout of their own: its bytes (0: as the file has it), and the
  // kernel that makes it of an uploaded one. `to` takes the place of data, scales and biases.
  size_t (*relaid_bytes)(const tensor::MatrixView&) = nullptr;
  void (*relay)(const tensor::MatrixView& from, std::byte* to, const CudaLaunch&) = nullptr;
};

// Null in a build without CUDA.
const CudaKernels* cuda_kernels();

}  // namespace rafter::kernels

// The kernels of one back end as plain function pointers, filled once at start. A null entry means that the
// back end has no body for that fused op: the plan then keeps its unfused composition.
#pragma once

#include "kernels/op/attention.h"
#include "kernels/op/delta_net.h"
#include "kernels/op/elementwise.h"
#include "kernels/op/embed.h"
#include "kernels/op/experts.h"
#include "kernels/op/kv_cache.h"
#include "kernels/op/matmul.h"
#include "kernels/op/rms_norm.h"
#include "kernels/op/rope.h"
#include "kernels/op/router.h"

namespace rafter::kernels {

// Every worker of the team calls the same kernel with the same arguments; the kernel divides the work. A
// kernel leaves no work running when its last worker returns; the executor puts barriers between dependent
// steps.
struct KernelTable {
  const char* name = "";  // "reference", "portable", "avx2", "avx512"

  void (*embed)(const EmbedArgs&, Worker&) = nullptr;
  void (*rms_norm)(const RmsNormArgs&, Worker&) = nullptr;
  void (*matmul)(const MatmulArgs&, Worker&) = nullptr;  // one segment, no prologue, epilogue store
  void (*rope_angles)(const RopeAnglesArgs&, Worker&) = nullptr;
  void (*rope)(const RopeArgs&, Worker&) = nullptr;
  void (*kv_append)(const KvAppendArgs&, Worker&) = nullptr;
  void (*attention)(const AttentionArgs&, Worker&) = nullptr;
  void (*row_attention)(const RowAttentionArgs&, Worker&) = nullptr;
  void (*short_convolution)(const ShortConvolutionArgs&, Worker&) = nullptr;
  void (*l2_norm)(const L2NormArgs&, Worker&) = nullptr;
  void (*delta_gates)(const DeltaGatesArgs&, Worker&) = nullptr;
  void (*gated_delta)(const GatedDeltaArgs&, Worker&) = nullptr;
  void (*gated_rms_norm)(const GatedRmsNormArgs&, Worker&) = nullptr;
  void (*split_gate)(const SplitGateArgs&, Worker&) = nullptr;
  void (*sigmoid_gate)(const SigmoidGateArgs&, Worker&) = nullptr;
  void (*swiglu)(const SwigluArgs&, Worker&) = nullptr;
  void (*geglu)(const GegluArgs&, Worker&) = nullptr;
  void (*scale)(const ScaleArgs&, Worker&) = nullptr;
  void (*softcap)(const SoftcapArgs&, Worker&) = nullptr;
  void (*add)(const AddArgs&, Worker&) = nullptr;
  void (*select_rows)(const SelectRowsArgs&, Worker&) = nullptr;
  void (*router)(const RouterArgs&, Worker&) = nullptr;
  void (*experts)(const ExpertsArgs&, Worker&) = nullptr;

  // Fused; null if the back end has none.
  void (*fused_matmul)(const MatmulArgs&, Worker&) = nullptr;  // segments, norm prologue, epilogues
  void (*rope_append)(const RopeAppendArgs&, Worker&) = nullptr;
  void (*fused_rms_norm)(const RmsNormArgs&, Worker&) = nullptr;  // adds a residual

  // Whether `matmul` (`fused_matmul`, `experts`) reads this format.
  bool (*supports_format)(const tensor::NumberFormat&) = nullptr;
  // The name of the body that a format and row count get, for the printer: "qmv_q4g64", "qmm_bf16".
  const char* (*matmul_kernel_name)(const tensor::NumberFormat&, int64_t rows) = nullptr;

  // Scratch that a step needs with up to `capacity` rows: per worker, and shared by the team.
  struct Scratch {
    size_t per_worker = 0, shared = 0;
  };
  Scratch (*matmul_scratch)(const MatmulArgs&, int64_t capacity) = nullptr;
  Scratch (*attention_scratch)(const AttentionArgs&, int64_t capacity, int64_t max_positions) = nullptr;
  Scratch (*gated_delta_scratch)(const GatedDeltaArgs&) = nullptr;
  Scratch (*experts_scratch)(const ExpertsArgs&, int64_t capacity) = nullptr;
};

}  // namespace rafter::kernels

// The reference bodies, one per op; reference_kernels.cpp lists them. Worker 0 does all the work, the others
// return at once. The contracts are those of kernels/op.
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels::reference {

void embed(const EmbedArgs&, Worker&);
void rms_norm(const RmsNormArgs&, Worker&);
void matmul(const MatmulArgs&, Worker&);
void rope_angles(const RopeAnglesArgs&, Worker&);
void rope(const RopeArgs&, Worker&);
void kv_append(const KvAppendArgs&, Worker&);
void attention(const AttentionArgs&, Worker&);
void row_attention(const RowAttentionArgs&, Worker&);
void short_convolution(const ShortConvolutionArgs&, Worker&);
void l2_norm(const L2NormArgs&, Worker&);
void delta_gates(const DeltaGatesArgs&, Worker&);
void gated_delta(const GatedDeltaArgs&, Worker&);
void gated_rms_norm(const GatedRmsNormArgs&, Worker&);
void split_gate(const SplitGateArgs&, Worker&);
void sigmoid_gate(const SigmoidGateArgs&, Worker&);
void swiglu(const SwigluArgs&, Worker&);
void geglu(const GegluArgs&, Worker&);
void scale(const ScaleArgs&, Worker&);
void softcap(const SoftcapArgs&, Worker&);
void add(const AddArgs&, Worker&);
void select_rows(const SelectRowsArgs&, Worker&);
void router(const RouterArgs&, Worker&);
void experts(const ExpertsArgs&, Worker&);

}  // namespace rafter::kernels::reference

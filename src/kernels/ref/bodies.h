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
void swiglu(const SwigluArgs&, Worker&);
void add(const AddArgs&, Worker&);
void select_rows(const SelectRowsArgs&, Worker&);
void router(const RouterArgs&, Worker&);
void experts(const ExpertsArgs&, Worker&);

}  // namespace rafter::kernels::reference

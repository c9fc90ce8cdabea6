// Row kernels without a vector body, the same in every tier: what they cost is memory traffic (embed,
// select_rows) or paid once per step (rope_angles).
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

void embed_rows(const EmbedArgs&, Worker&);
void make_rope_angles(const RopeAnglesArgs&, Worker&);
void copy_wanted_rows(const SelectRowsArgs&, Worker&);

}  // namespace rafter::kernels

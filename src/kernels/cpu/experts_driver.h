// The experts op over a tier's matrix-product bodies (matmul_driver.h).
//
// The (row, rank) pairs of a step are grouped by expert, so that each expert's matrices are read once for all
// its rows, in three phases between which the workers meet:
//   1. each row of x is laid out as the bodies read it, once for each of its pairs, in order of expert
//   2. the hidden columns of all chosen experts form one claim space: gate, up, activation
//   3. the columns of the output form another: a claim takes its run of `down` from every chosen expert in
//      turn, then sums each row's terms in rank order while they are in cache
#pragma once

#include "kernels/cpu/matmul_driver.h"
#include "kernels/op/experts.h"

namespace rafter::kernels {

void run_experts(const MatmulTier&, const ExpertsArgs&, Worker&);
KernelTable::Scratch experts_scratch(const MatmulTier&, const ExpertsArgs&, int64_t capacity);

}  // namespace rafter::kernels

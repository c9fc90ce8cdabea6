// The bodies that matmul.cu chooses among, by format of the tiles. supports_… also says no where a block gets
// too little shared memory for the body; matmul_prompt runs everywhere.
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/prepared_rows.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace rafter::kernels::cuda {

// One row.
template <typename Format>
void matmul_one_row(const MatmulArgs& a, const CudaLaunch& l);
bool supports_one_row(const MatmulArgs& a, const CudaLaunch& l);

// Up to 16 rows at a time. Scratch in bytes, behind the prepared rows.
bool supports_rows(const MatmulArgs& a, const CudaLaunch& l);
int64_t rows_scratch(const MatmulArgs& a, int64_t capacity);
template <typename Format>
void matmul_rows(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l);

// Tiles of 64 rows.
template <typename Format>
void matmul_prompt(const MatmulArgs& a, const PreparedRows& prepared, const CudaLaunch& l);

// Every format, element by element in fp32: right, not fast.
void matmul_any(const MatmulArgs& a, const CudaLaunch& l);

// clang-format off
// planes, scale groups per unit, fp16 pairs
#define RAFTER_FOR_TILE_FORMATS(DO) \
  DO(0, 0, false) \
  DO(1, 1, false) DO(1, 2, false) DO(2, 1, false) DO(2, 2, false) \
  DO(1, 1, true) DO(1, 2, true) DO(2, 1, true) DO(2, 2, true)
// clang-format on
#define RAFTER_INSTANTIATE_MATMUL_ONE_ROW(P, G, H) \
  template void matmul_one_row<TileFormat<P, G, H>>(const MatmulArgs&, const CudaLaunch&);
#define RAFTER_INSTANTIATE_MATMUL_ROWS(P, G, H) \
  template void matmul_rows<TileFormat<P, G, H>>(const MatmulArgs&, const PreparedRows&, const CudaLaunch&);
#define RAFTER_INSTANTIATE_MATMUL_PROMPT(P, G, H) \
  template void matmul_prompt<TileFormat<P, G, H>>(const MatmulArgs&, const PreparedRows&, const CudaLaunch&);

}  // namespace rafter::kernels::cuda

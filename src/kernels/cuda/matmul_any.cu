#include <cuda_bf16.h>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"
#include "kernels/cuda/weight_element.cuh"
#include "kernels/cuda/weight_tiles.cuh"

namespace rafter::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kRows = 8;

// A warp per output; lane l sums columns l, l + 32, … of eight rows at a time.
__global__ void any_kernel(const __grid_constant__ MatmulArgs a) {
  start_next();
  wait_for_inputs();
  const tensor::MatrixView& w = a.segments[0].weight;
  const TileLayout layout = tile_layout(w);
  const int64_t n = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  const int rows = *a.rows, first = static_cast<int>(blockIdx.y) * kRows;
  if (n >= w.rows || first >= rows) return;
  float sums[kRows] = {};
  for (int64_t k = lane; k < a.columns; k += 32) {
    const float weight = layout.tiled ? tiled_element(w, layout, n, k) : weight_element(w, n, k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= rows) continue;
      float x = a.x[(first + r) * a.columns + k];
      if (a.precision == MatmulPrecision::bf16_inputs) x = __bfloat162float(__float2bfloat16_rn(x));
      sums[r] = __fmaf_rn(weight, x, sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    for (int offset = 16; offset > 0; offset /= 2) sums[r] += __shfl_xor_sync(~0u, sums[r], offset);
    if (lane == 0 && first + r < rows)
      a.segments[0].out[(first + r) * w.rows + n] =
          sums[r] + (a.segments[0].bias ? a.segments[0].bias[n] : 0.0f);
  }
}

}  // namespace

void matmul_any(const MatmulArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>((a.segments[0].weight.rows + kWarps - 1) / kWarps),
                  static_cast<unsigned>((l.capacity + kRows - 1) / kRows));
  launch(any_kernel, grid, kThreads, 0, l.stream, a);
}

}  // namespace rafter::kernels::cuda

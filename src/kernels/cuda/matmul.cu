// Matrix products: which body runs. A matrix in tiles (weight_tiles.cuh) with bf16 inputs goes to the tensor
// cores, whose three bodies give the same bits; everything else to matmul_any.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_bodies.cuh"

namespace rafter::kernels::cuda {
namespace {

enum class MatmulBody { any, one_row, rows, prompt };

MatmulBody choose(const MatmulArgs& a, const CudaLaunch& l) {
  if (a.precision != MatmulPrecision::bf16_inputs || !tile_layout(a.segments[0].weight).tiled)
    return MatmulBody::any;
  if (supports_one_row(a, l)) return MatmulBody::one_row;
  return supports_rows(a, l) ? MatmulBody::rows : MatmulBody::prompt;
}

__global__ void __launch_bounds__(kProductThreads)
    prepare_kernel(const __grid_constant__ MatmulArgs a, __nv_bfloat16* x, float* sums, int64_t sums_stride) {
  __shared__ float parts[kProductWarps];
  start_next();
  RowPreparer preparer(a);
  wait_for_inputs();
  const int64_t row = blockIdx.x;
  if (row < *a.rows) preparer.prepare(row, parts, x + row * a.columns, sums + row, sums_stride);
}

PreparedRows prepare(const MatmulArgs& a, const CudaLaunch& l) {
  auto* x = reinterpret_cast<__nv_bfloat16*>(l.scratch);
  auto* sums = reinterpret_cast<float*>(l.scratch + prepared_x_bytes(a.columns, l.capacity));
  const int64_t stride = prepared_sums_stride(l.capacity);
  launch(prepare_kernel, static_cast<unsigned>(l.capacity), kProductThreads, 0, l.stream, a, x, sums, stride);
  return {x, sums, stride};
}

template <typename Format>
void launch_tiled(const MatmulArgs& a, const CudaLaunch& l) {
  const MatmulBody body = choose(a, l);
  if (body == MatmulBody::one_row) return matmul_one_row<Format>(a, l);
  const PreparedRows prepared =
      l.bf16_in ? PreparedRows{reinterpret_cast<const __nv_bfloat16*>(a.x)} : prepare(a, l);
  if (body == MatmulBody::rows) return matmul_rows<Format>(a, prepared, l);
  matmul_prompt<Format>(a, prepared, l);
}

}  // namespace

bool supports_format(const tensor::NumberFormat& format) {
  using tensor::FormatKind;
  switch (format.kind) {
    case FormatKind::f32:
    case FormatKind::f16:
    case FormatKind::bf16:
    case FormatKind::affine:
    case FormatKind::q4_0:
    case FormatKind::q4_1:
    case FormatKind::q8_0:
    case FormatKind::q4_k:
    case FormatKind::q5_k:
    case FormatKind::q6_k:
      return true;
    default:
      return false;
  }
}

bool fuses_matmul(const MatmulArgs& a) {
  const TileLayout layout = tile_layout(a.segments[0].weight);
  bool same = a.precision == MatmulPrecision::bf16_inputs && layout.tiled;
  for (int s = 1; s < a.segment_count; ++s) same = same && tile_layout(a.segments[s].weight) == layout;
  return same;
}

// The body for few rows can do without prepared ones, where there is no norm to apply: it sums them itself.
bool takes_bf16(const MatmulArgs& a, const CudaLaunch& l) {
  return choose(a, l) == MatmulBody::rows && a.norm_weight == nullptr;
}
bool gives_bf16(const MatmulArgs& a, const CudaLaunch& l) { return choose(a, l) == MatmulBody::rows; }

size_t matmul_scratch(const MatmulArgs& a, const CudaLaunch& l) {
  const int64_t rows = choose(a, l) == MatmulBody::rows ? rows_scratch(a, l.capacity) : 0;
  return static_cast<size_t>(prepared_bytes(a.columns, l.capacity) + rows);
}

const char* matmul_kernel_name(const MatmulArgs& a, const CudaLaunch& l) {
  switch (choose(a, l)) {
    case MatmulBody::one_row:
      return "tensor_one_row";
    case MatmulBody::rows:
      return "tensor_rows";
    case MatmulBody::prompt:
      return "tensor_prompt";
    case MatmulBody::any:
      break;
  }
  return "any";
}

void matmul(const MatmulArgs& a, const CudaLaunch& l) {
  if (choose(a, l) == MatmulBody::any) return matmul_any(a, l);
  const TileLayout layout = tile_layout(a.segments[0].weight);
#define RAFTER_TRY_FORMAT(P, G, H)                                        \
  if (layout.planes == P && layout.groups == G && layout.half_pairs == H) \
    return launch_tiled<TileFormat<P, G, H>>(a, l);
  RAFTER_FOR_TILE_FORMATS(RAFTER_TRY_FORMAT)
#undef RAFTER_TRY_FORMAT
}

}  // namespace rafter::kernels::cuda

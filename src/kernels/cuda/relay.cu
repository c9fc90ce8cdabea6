// Uploading a matrix: into the layout of weight_tiles.cuh where the products want it. And the embedding,
// which may read a matrix that was re-laid for the head.
#include <cuda_bf16.h>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/weight_element.cuh"
#include "kernels/cuda/weight_tiles.cuh"

namespace rafter::kernels::cuda {
namespace {

using tensor::FormatKind;

constexpr int kThreads = 256;

// The code of an element of a format with planes.
__device__ uint32_t code_at(const tensor::MatrixView& w, int64_t n, int64_t k) {
  const uint8_t* data = device_bytes(w.data);
  const int64_t element = n * w.columns + k;
  const int e = static_cast<int>(k & 31);
  switch (w.format.kind) {
    case FormatKind::affine:
      return w.format.bits == 8 ? data[element] : data[element / 2] >> element % 2 * 4 & 15;
    case FormatKind::q4_0:
      return data[element / 32 * 18 + 2 + (e & 15)] >> e / 16 * 4 & 15;
    case FormatKind::q4_1:
      return data[element / 32 * 20 + 4 + (e & 15)] >> e / 16 * 4 & 15;
    case FormatKind::q8_0:
      return data[element / 32 * 34 + 2 + e] ^ 0x80;  // q + 128
    default:
      return 0;
  }
}

// (scale, bias) of the group that column k is in, as the pair of the unit.
__device__ uint32_t pair_at(const tensor::MatrixView& w, int64_t n, int64_t k) {
  const uint8_t* data = device_bytes(w.data);
  const int64_t block = (n * w.columns + k) / 32;
  const auto with_offset = [](uint32_t d, float factor) {  // exact: the factor is a power of two
    return d | uint32_t{__half_as_ushort(__float2half_rn(half_value(d) * factor))} << 16;
  };
  switch (w.format.kind) {
    case FormatKind::affine: {
      const int64_t group = n * (w.columns / w.format.group) + k / w.format.group;
      return load_u16(device_bytes(w.scales) + 2 * group) | load_u16(device_bytes(w.biases) + 2 * group)
                                                                << 16;
    }
    case FormatKind::q4_0:
      return with_offset(load_u16(data + block * 18), -8);
    case FormatKind::q4_1:
      return load_u16(data + block * 20) | load_u16(data + block * 20 + 2) << 16;
    case FormatKind::q8_0:
      return with_offset(load_u16(data + block * 34), -128);
    default:
      return 0;
  }
}

// One warp per unit.
__global__ void __launch_bounds__(kThreads) relay_kernel(tensor::MatrixView w, uint8_t* out) {
  const TileLayout layout = tile_layout(w);
  const int64_t units_per_tile = w.columns / kUnitColumns;
  const int64_t units = (w.rows + kTileRows - 1) / kTileRows * units_per_tile;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int64_t unit = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32; unit < units;
       unit += int64_t{gridDim.x} * (kThreads / 32)) {
    const int64_t n0 = unit / units_per_tile * kTileRows, k0 = unit % units_per_tile * kUnitColumns;
    uint8_t* to = out + unit * layout.unit_bytes();
    for (int j = 0; j < 4; ++j) {
      uint32_t words[4] = {};  // the A registers (bf16), or the planes' words
      for (int i = 0; i < 4; ++i) {
        const int64_t n = n0 + g + i % 2 * 8, k = k0 + j / 2 * 32 + t * 8 + j % 2 * 4 + i / 2 * 2;
        if (n >= w.rows) continue;
        for (int e = 0; e < 2; ++e) {
          if (layout.planes == 0) {
            words[i] |= load_u16(device_bytes(w.data) + 2 * (n * w.columns + k + e)) << 16 * e;
          } else {
            const uint32_t code = code_at(w, n, k + e);
            const int at = 16 * e + 4 * i;
            words[layout.planes - 1] |= (code & 15) << at;
            if (layout.planes == 2) words[0] |= (code >> 4) << at;
          }
        }
      }
      if (layout.planes == 0) {
        *reinterpret_cast<uint4*>(to + j * 512 + lane * 16) =
            make_uint4(words[0], words[1], words[2], words[3]);
      } else {
        for (int plane = 0; plane < layout.planes; ++plane)
          *reinterpret_cast<uint32_t*>(to + plane * 512 + lane * 16 + j * 4) = words[plane];
      }
    }
    if (lane < 16) {
      for (int group = 0; group < layout.groups; ++group) {
        const int64_t n = n0 + lane / 2 + lane % 2 * 8;
        const uint32_t pair = n < w.rows ? pair_at(w, n, k0 + group * (kUnitColumns / layout.groups)) : 0;
        *reinterpret_cast<uint32_t*>(to + layout.planes * 512 + group * 64 + lane * 4) = pair;
      }
    }
  }
}

__global__ void embed_kernel(EmbedArgs a) {
  start_next();
  wait_for_inputs();
  const int64_t b = blockIdx.x, width = a.table.columns;
  if (b >= a.input->rows) return;
  const TileLayout layout = tile_layout(a.table);
  const int64_t token = a.input->tokens[b];
  const int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= width) return;
  a.out[b * width + i] =
      a.scale * (layout.tiled ? tiled_element(a.table, layout, token, i) : weight_element(a.table, token, i));
}

}  // namespace

void embed(const EmbedArgs& a, const CudaLaunch& l) {
  const dim3 grid(static_cast<unsigned>(l.capacity),
                  static_cast<unsigned>((a.table.columns + kThreads - 1) / kThreads));
  launch(embed_kernel, grid, kThreads, 0, l.stream, a);
}

size_t relaid_bytes(const tensor::MatrixView& w) {
  return tile_layout(w).tiled ? static_cast<size_t>(tiled_bytes(w)) : 0;
}

void relay(const tensor::MatrixView& from, std::byte* to, const CudaLaunch& l) {
  const int64_t warps = tiled_bytes(from) / tile_layout(from).unit_bytes();
  const int64_t blocks = (warps + kThreads / 32 - 1) / (kThreads / 32),
                most = int64_t{l.multiprocessors} * 16;
  relay_kernel<<<static_cast<unsigned>(blocks < most ? blocks : most), kThreads, 0,
                 static_cast<cudaStream_t>(l.stream)>>>(from, reinterpret_cast<uint8_t*>(to));
}

}  // namespace rafter::kernels::cuda

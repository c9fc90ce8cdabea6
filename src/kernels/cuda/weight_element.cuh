// One weight of a stored matrix as fp32: tensor/codec.h's definition of the formats, element by element.
// Right for every format below and fast for none.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "tensor/blocks.h"
#include "tensor/matrix.h"

namespace rafter::kernels::cuda {

__device__ inline const uint8_t* device_bytes(const std::byte* p) {
  return reinterpret_cast<const uint8_t*>(p);
}

__device__ inline uint32_t load_u16(const uint8_t* p) { return p[0] | uint32_t{p[1]} << 8; }

__device__ inline float half_value(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ inline float plain_value(tensor::DType type, const uint8_t* array, int64_t i) {
  if (type == tensor::DType::f16) return half_value(load_u16(array + 2 * i));
  if (type == tensor::DType::bf16) return __uint_as_float(load_u16(array + 2 * i) << 16);
  return __uint_as_float(load_u16(array + 4 * i) | load_u16(array + 4 * i + 2) << 16);
}

__device__ inline int scale_bytes(tensor::DType type) { return type == tensor::DType::f32 ? 4 : 2; }

// The (scale, minimum) pair of group j of Q4_K and Q5_K.
__device__ inline void k_scale(const uint8_t* packed, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = packed[j] & 63, *minimum = packed[j + 4] & 63;
  } else {
    *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
    *minimum = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
  }
}

__device__ inline float weight_element(const tensor::MatrixView& w, int64_t n, int64_t k) {
  using tensor::FormatKind;
  const uint8_t* data = device_bytes(w.data);
  const int64_t columns = w.columns;
  const int e = static_cast<int>(k & 31);
  switch (w.format.kind) {
    case FormatKind::f32:
      return plain_value(tensor::DType::f32, data, n * columns + k);
    case FormatKind::f16:
      return plain_value(tensor::DType::f16, data, n * columns + k);
    case FormatKind::bf16:
      return plain_value(tensor::DType::bf16, data, n * columns + k);
    case FormatKind::affine: {
      const int bits = w.format.bits;
      const uint8_t* row = data + n * (columns * bits / 8);
      const int64_t bit = k * bits;
      uint32_t window = row[bit / 8];
      if ((bit & 7) + bits > 8) window |= uint32_t{row[bit / 8 + 1]} << 8;
      const uint32_t code = window >> (bit & 7) & ((1u << bits) - 1);
      const int64_t group = n * (columns / w.format.group) + k / w.format.group;
      return __fmaf_rn(static_cast<float>(code),
                       plain_value(w.format.scale_type, device_bytes(w.scales), group),
                       plain_value(w.format.scale_type, device_bytes(w.biases), group));
    }
    case FormatKind::q4_0: {
      const uint8_t* b = data + (n * columns + k) / 32 * 18;
      return half_value(load_u16(b)) * (static_cast<int>(b[2 + (e & 15)] >> (e / 16 * 4) & 15) - 8);
    }
    case FormatKind::q4_1: {
      const uint8_t* b = data + (n * columns + k) / 32 * 20;
      return half_value(load_u16(b)) * (b[4 + (e & 15)] >> (e / 16 * 4) & 15) + half_value(load_u16(b + 2));
    }
    case FormatKind::q8_0: {
      const uint8_t* b = data + (n * columns + k) / 32 * 34;
      return half_value(load_u16(b)) * static_cast<int8_t>(b[2 + e]);
    }
    case FormatKind::q4_k:
    case FormatKind::q5_k: {
      const bool five = w.format.kind == FormatKind::q5_k;
      const uint8_t* b = data + (n * columns + k) / 256 * (five ? 176 : 144);
      const int j = static_cast<int>(k & 255) / 32;
      int scale, minimum;
      k_scale(b + 4, j, &scale, &minimum);
      int code = b[(five ? 48 : 16) + 32 * (j / 2) + e] >> (j & 1) * 4 & 15;
      if (five) code |= (b[16 + e] >> j & 1) << 4;
      return half_value(load_u16(b)) * scale * code - half_value(load_u16(b + 2)) * minimum;
    }
    case FormatKind::q6_k: {
      const uint8_t* b = data + (n * columns + k) / 256 * 210;
      const int in = static_cast<int>(k & 255), h = in / 128, s = in % 128 / 32;
      const int low = b[64 * h + 32 * (s & 1) + e] >> s / 2 * 4 & 15;
      const int high = b[128 + 32 * h + e] >> 2 * s & 3;
      return half_value(load_u16(b + 208)) * static_cast<int8_t>(b[192 + in / 16]) * ((low | high << 4) - 32);
    }
    default:
      return 0;
  }
}

}  // namespace rafter::kernels::cuda

// Block formats whose rows are first unpacked, a few at a time, to what affine 8 bit stores: a byte per code,
// and a scale and a bias in fp32 per group. Every such format is exactly that: scale·code + bias. The product
// is then that of affine 8 bit. (Formats that are read in place are 2 to 4 times as fast from memory; asking
// for the next rows while these are unpacked gained nothing.)
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_affine-inl.h"
#include "kernels/cpu/matmul_q8-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// One row as it is stored and as it is unpacked.
struct UnpackedRow {
  const std::byte* data;
  const std::byte* data_scales;  // MLX's kinds
  int64_t columns;
  std::byte* codes;
  float* scales;
  float* biases;
};

inline int64_t unpacked_at_once(int64_t rows) { return rows <= kPrivateRows ? 4 : kManyRowsClaim; }

// Bytes per column: codes, and 8 bytes for every 16 columns.
inline int64_t unpacked_bytes(int64_t rows) { return unpacked_at_once(rows) * 3 / 2; }

template <int kGroup>
MatmulBody unpacked_product(MatmulPrecision precision) {
  return codes_body<Q8Format<kGroup, F32Scales>>(precision);
}

// An Unpacker type has kGroup (32 or 16) and unpack(UnpackedRow).
template <class Unpacker, MatmulPrecision kPrecision>
void multiply_unpacked(const MatmulColumns& work) {
  const tensor::MatrixView& weight = *work.weight;
  const int64_t columns = weight.columns, groups = columns / Unpacker::kGroup;
  const int64_t row_bytes = weight.format.row_bytes(columns);
  const int64_t scale_row_bytes = weight.format.scale_row_bytes(columns);
  const int64_t step = unpacked_at_once(work.rows);
  std::byte* codes = work.scratch;
  float* scales = reinterpret_cast<float*>(codes + step * columns);
  float* biases = scales + step * groups;
  const tensor::NumberFormat format{tensor::FormatKind::affine, 8, Unpacker::kGroup, tensor::DType::f32};
  tensor::MatrixView unpacked{format,
                              0,
                              columns,
                              codes,
                              reinterpret_cast<const std::byte*>(scales),
                              reinterpret_cast<const std::byte*>(biases)};
  const MatmulBody body = unpacked_product<Unpacker::kGroup>(kPrecision);
  MatmulColumns part = work;
  part.weight = &unpacked;
  part.begin = 0;
  part.foresight = nullptr;  // what comes after a part is unpacked first
  part.scratch = work.scratch + (unpacked_bytes(work.rows) * columns + 63) / 64 * 64;
  for (int64_t n = work.begin; n < work.end; n += step) {
    unpacked.rows = part.end = work.end - n < step ? work.end - n : step;
    for (int64_t i = 0; i < part.end; ++i) {
      Unpacker::unpack({weight.data + (n + i) * row_bytes, weight.scales + (n + i) * scale_row_bytes, columns,
                        codes + i * columns, scales + i * groups, biases + i * groups});
    }
    part.sums = work.sums + n - work.begin;
    body.multiply(part);
  }
}

template <class Unpacker>
MatmulBody unpacked_body(MatmulPrecision precision) {
  MatmulBody body = unpacked_product<Unpacker::kGroup>(precision);
  body.unpacked_rows = unpacked_bytes;
  body.multiply = precision == MatmulPrecision::bf16_inputs
                      ? multiply_unpacked<Unpacker, MatmulPrecision::bf16_inputs>
                      : multiply_unpacked<Unpacker, MatmulPrecision::fp32_inputs>;
  return body;
}

// 32 codes out of 16 bytes of nibbles: byte j holds codes j and j + 16.
[[gnu::always_inline]] inline __m256i split_nibbles(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

// The same where byte j holds codes 2j and 2j + 1.
[[gnu::always_inline]] inline __m256i pair_nibbles(const std::byte* from) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_and_si256(_mm256_or_si256(bytes, _mm256_slli_epi16(bytes, 4)), _mm256_set1_epi8(15));
}

[[gnu::always_inline]] inline void store_codes(std::byte* to, __m256i codes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

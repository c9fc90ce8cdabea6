// MLX affine 2, 3, 5 and 6 bit: codes are unpacked to bytes a few rows at a time, and the product is that of
// affine 8 bit with the same groups, scales and biases.
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_affine-inl.h"
#include "kernels/cpu/matmul_q8-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// Rows of W unpacked at a time: with few rows of x what fits the first-level cache beside them, with more
// what a claim takes.
inline int64_t unpacked_rows(int64_t rows) { return rows <= kPrivateRows ? 4 : kManyRowsClaim; }

// Eight codes are `bits` bytes: they are brought into eight bytes of their own, out of which each code is
// selected by its bit offset.
struct UnpackTable {
  alignas(64) uint8_t spread[64];
  alignas(64) uint8_t offset[64];
  constexpr explicit UnpackTable(int bits) : spread(), offset() {
    for (int i = 0; i < 64; ++i) {
      spread[i] = static_cast<uint8_t>(i / 8 * bits + i % 8);
      offset[i] = static_cast<uint8_t>(i % 8 * bits);
    }
  }
};
constexpr UnpackTable kUnpackTables[] = {UnpackTable(2), UnpackTable(3), UnpackTable(4), UnpackTable(5),
                                         UnpackTable(6)};

// `count` codes, a multiple of 32, of an LSB-first stream.
inline void unpack_codes(const std::byte* from, int bits, int64_t count, std::byte* to) {
  const UnpackTable& table = kUnpackTables[bits - 2];
  const __m512i spread = _mm512_load_si512(table.spread), offset = _mm512_load_si512(table.offset);
  const __m512i code_bits = _mm512_set1_epi8(static_cast<char>((1 << bits) - 1));
  const auto unpack = [&](int64_t i, int64_t live) __attribute__((always_inline)) {
    const __mmask64 bytes = (uint64_t{1} << (live * bits / 8)) - 1;
    const __m512i packed =
        _mm512_permutexvar_epi8(spread, _mm512_maskz_loadu_epi8(bytes, from + i * bits / 8));
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(offset, packed), code_bits);
  };
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) _mm512_storeu_si512(to + i, unpack(i, 64));
  if (i < count) {  // (a masked store would do, at a tenth of the speed)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_castsi512_si256(unpack(i, 32)));
  }
}

inline MatmulBody eight_bits_body(tensor::NumberFormat format, MatmulPrecision precision) {
  format.bits = 8;
  return affine_body<Q8Body>(format, precision);
}

template <MatmulPrecision kPrecision>
void multiply_bits(const MatmulColumns& work) {
  const tensor::MatrixView& weight = *work.weight;
  const int64_t columns = weight.columns, row_bytes = weight.format.row_bytes(columns);
  const int64_t scale_row_bytes = weight.format.scale_row_bytes(columns);
  const MatmulBody body = eight_bits_body(weight.format, kPrecision);
  const int64_t step = unpacked_rows(work.rows);
  tensor::MatrixView unpacked = weight;
  unpacked.format.bits = 8;
  unpacked.data = work.scratch;
  MatmulColumns part = work;
  part.weight = &unpacked;
  part.begin = 0;
  part.foresight = nullptr;  // what comes after a part is unpacked first
  part.scratch = work.scratch + (step * columns + 63) / 64 * 64;
  for (int64_t n = work.begin; n < work.end; n += step) {
    unpacked.rows = part.end = work.end - n < step ? work.end - n : step;
    for (int64_t i = 0; i < part.end; ++i) {
      unpack_codes(weight.data + (n + i) * row_bytes, weight.format.bits, columns,
                   work.scratch + i * columns);
    }
    unpacked.scales = weight.scales + n * scale_row_bytes;
    unpacked.biases = weight.biases + n * scale_row_bytes;
    part.sums = work.sums + n - work.begin;
    body.multiply(part);
  }
}

inline MatmulBody bits_body(const tensor::NumberFormat& format, MatmulPrecision precision) {
  MatmulBody body = eight_bits_body(format, precision);
  body.unpacked_rows = unpacked_rows;
  body.multiply = precision == MatmulPrecision::bf16_inputs ? multiply_bits<MatmulPrecision::bf16_inputs>
                                                            : multiply_bits<MatmulPrecision::fp32_inputs>;
  return body;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

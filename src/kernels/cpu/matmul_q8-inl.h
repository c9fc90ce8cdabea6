// MLX affine 8 bit: rows of unsigned bytes; a scale and a bias per group.
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_dot-inl.h"
#include "kernels/cpu/matmul_scales-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// The low and high bytes of bf16(i) for i in 0 … 127; vpermi2b ignores the index's highest bit.
struct ByteTable {
  alignas(64) uint8_t low[128], high[128];
  constexpr ByteTable() : low(), high() {
    for (int i = 0; i < 128; ++i) {
      low[i] = static_cast<uint8_t>(bf16_of(i) & 0xFF);
      high[i] = static_cast<uint8_t>(bf16_of(i) >> 8);
    }
  }
};
constexpr ByteTable kByteTable;

// 64 bytes of low and of high halves become 64 words: the lower 8 of each 16-byte lane, then the upper 8.
[[gnu::always_inline]] inline void join_bytes(__m512i low, __m512i high, __m512bh codes[2]) {
  codes[0] = as_bf16(_mm512_unpacklo_epi8(low, high));
  codes[1] = as_bf16(_mm512_unpackhi_epi8(low, high));
}

// bf16 of unsigned bytes. From 128 on the exponent is that of 128 and the low byte holds the code's low 7
// bits; below, both come from the table. (Through fp32, vpmovzxbd + vcvtdq2ps + vcvtne2ps2bf16: 5
// instructions for 32 codes instead of 3.5.)
[[gnu::always_inline]] inline void expand_unsigned(__m512i bytes, __m512bh codes[2]) {
  const __m512i low_table0 = _mm512_load_si512(kByteTable.low);
  const __m512i low_table1 = _mm512_load_si512(kByteTable.low + 64);
  const __m512i high_table0 = _mm512_load_si512(kByteTable.high);
  const __m512i high_table1 = _mm512_load_si512(kByteTable.high + 64);
  const __mmask64 large = _mm512_movepi8_mask(bytes);
  const __m512i small_bits = _mm512_and_si512(bytes, _mm512_set1_epi8(0x7F));
  const __m512i low = _mm512_mask2_permutex2var_epi8(low_table0, small_bits, ~large, low_table1);
  const __m512i high = _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(high_table0, bytes, high_table1), large,
                                            _mm512_set1_epi8(0x43));
  join_bytes(low, high, codes);
}

// Transposes the 256 bytes of a step so that a lane of every vector sees one group only. 4 groups: 16-byte
// chunks; 8 groups: 4-byte chunks; 2 groups: halves.
template <int kGroup>
[[gnu::always_inline]] inline void gather_groups(__m512i a, __m512i b, __m512i c, __m512i d, __m512i out[4]) {
  if constexpr (kGroup == 128) {
    out[0] = _mm512_shuffle_i32x4(a, c, 0x44);
    out[1] = _mm512_shuffle_i32x4(a, c, 0xEE);
    out[2] = _mm512_shuffle_i32x4(b, d, 0x44);
    out[3] = _mm512_shuffle_i32x4(b, d, 0xEE);
    return;
  }
  const __m512i even0 = _mm512_shuffle_i32x4(a, b, 0x88), even1 = _mm512_shuffle_i32x4(c, d, 0x88);
  const __m512i odd0 = _mm512_shuffle_i32x4(a, b, 0xDD), odd1 = _mm512_shuffle_i32x4(c, d, 0xDD);
  if constexpr (kGroup == 64) {
    out[0] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    out[1] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    out[2] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    out[3] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  } else {
    out[0] = _mm512_unpacklo_epi32(even0, even1);
    out[1] = _mm512_unpackhi_epi32(even0, even1);
    out[2] = _mm512_unpacklo_epi32(odd0, odd1);
    out[3] = _mm512_unpackhi_epi32(odd0, odd1);
  }
}

// The column of element i of vector v after gather_groups and join_bytes.
template <int kGroup>
constexpr int gathered_column(int v, int i) {
  const int lane = i / 8, byte = i % 8;  // of 16 bytes
  if constexpr (kGroup == 32) return 32 * (lane + byte / 4 * 4) + 4 * v + byte % 4;
  const int vector = v / 2, in_chunk = 8 * (v % 2) + byte;
  if constexpr (kGroup == 64) {
    constexpr int kChunk[4] = {0, 2, 1, 3};
    return 64 * lane + 16 * kChunk[vector] + in_chunk;
  }
  return 128 * (lane / 2) + 64 * (vector / 2) + 32 * (vector % 2) + 16 * (lane % 2) + in_chunk;
}

template <int kGroupColumns>
struct Q8Input {
  static constexpr int kGroup = kGroupColumns;
  static constexpr Biases kBiases = Biases::per_row;
  static constexpr int column(int v, int i) { return gathered_column<kGroup>(v, i); }
  static constexpr int lane_group(int lane) { return column(0, 2 * lane) / kGroup; }
};

template <int kGroup, class ScaleType>
struct Q8Format {
  using Input = Q8Input<kGroup>;
  using Scale = ScaleType;
  static constexpr bool kScaled = true;
  static constexpr int64_t kStepBytes = kStep;
  static constexpr int64_t kStepScaleBytes = kStep / kGroup * Scale::kBytes;

  [[gnu::always_inline]] static void expand(const std::byte* data, const std::byte* scales, DotStep& step) {
    __m512i bytes[4];
    gather_groups<kGroup>(_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64),
                          _mm512_loadu_si512(data + 128), _mm512_loadu_si512(data + 192), bytes);
    for (int i = 0; i < 4; ++i) expand_unsigned(bytes[i], step.codes + 2 * i);
    step.scale = Scale::template spread<Input>(scales);
  }
};

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

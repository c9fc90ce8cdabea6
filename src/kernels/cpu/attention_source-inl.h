// Keys and values of one split where the cache has them, and their expansion to fp32: keys transposed
// [d][position], a few positions at a time, so that lanes hold positions and a score needs no reduction;
// values as they lie, lanes along d. What is expanded is a tile of kKeyTile positions in the nearest cache,
// never more.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/vector-inl.h"
#include "kernels/op/attention.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kSplit = kSplitPositions;
constexpr int64_t kFetchAhead = 64;  // positions, at most: see fetch_distance()
constexpr int64_t kKeyTile = 32;     // positions transposed at once: 16 KiB at head_dim 128

// Elements of the cache as they are stored.
enum class Stored : uint8_t { f32, bf16, codes8, codes4 };

Stored stored_as(const KvLayer& cache) {
  if (cache.has_codes()) return cache.codes.bits == 8 ? Stored::codes8 : Stored::codes4;
  return cache.type == tensor::DType::f32 ? Stored::f32 : Stored::bf16;
}

// How many positions ahead rows are fetched: what takes as long to compute as a line takes to come. 8 KiB of
// 128 elements; codes at half of it lose a quarter of their speed, bf16 at the double of it a tenth.
constexpr int64_t fetch_distance(Stored stored) {
  return stored == Stored::codes8 || stored == Stored::codes4 ? kFetchAhead : kFetchAhead / 2;
}

// Keys and values of one kv head over one split. Entries hold for the positions [from, to), and keys are
// readable for the whole of every key tile that these touch.
struct SplitSource {
  const std::byte* keys[kSplit];
  const std::byte* values[kSplit + kFetchAhead];
  int64_t from, to;
  Stored stored;
  int64_t head_dim;
  // With codes: by block of the split, the first scale of slot 0 (kernels/op/kv_cache.h).
  const std::byte* key_scales[kSplit / kBlockPositions];
  const std::byte* value_scales[kSplit / kBlockPositions];
  int64_t group_size = 0;  // 0: no codes
};

// Words {4i, 4i+1, 4i+2, 4i+3} of the four 16-byte blocks at rows i, 4 + i, 8 + i, …, one block per 128 bits.
[[gnu::always_inline]] inline Words gather_blocks(const std::byte* const* rows, int i, int64_t offset) {
  const auto block = [&](int k) {
    typedef uint32_t Block __attribute__((vector_size(16)));
    Block words;
    std::memcpy(&words, rows[4 * k + i] + offset, 16);
    return words;
  };
#if defined(__AVX512F__)
  __m512i v = _mm512_castsi128_si512(reinterpret_cast<__m128i>(block(0)));
  v = _mm512_inserti32x4(v, reinterpret_cast<__m128i>(block(1)), 1);
  v = _mm512_inserti32x4(v, reinterpret_cast<__m128i>(block(2)), 2);
  return reinterpret_cast<Words>(_mm512_inserti32x4(v, reinterpret_cast<__m128i>(block(3)), 3));
#elif defined(__AVX2__)
  const __m256i v = _mm256_castsi128_si256(reinterpret_cast<__m128i>(block(0)));
  return reinterpret_cast<Words>(_mm256_inserti128_si256(v, reinterpret_cast<__m128i>(block(1)), 1));
#else
  return block(0);
#endif
}

// Transposes the 4 × 4 words of each 128-bit block of four vectors.
[[gnu::always_inline]] inline void transpose_blocks(Words v[4]) {
#if defined(__AVX512F__)
  const __m512i a = reinterpret_cast<__m512i>(v[0]), b = reinterpret_cast<__m512i>(v[1]);
  const __m512i c = reinterpret_cast<__m512i>(v[2]), d = reinterpret_cast<__m512i>(v[3]);
  const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
  const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
  v[0] = reinterpret_cast<Words>(_mm512_unpacklo_epi64(ab0, cd0));
  v[1] = reinterpret_cast<Words>(_mm512_unpackhi_epi64(ab0, cd0));
  v[2] = reinterpret_cast<Words>(_mm512_unpacklo_epi64(ab1, cd1));
  v[3] = reinterpret_cast<Words>(_mm512_unpackhi_epi64(ab1, cd1));
#elif defined(__AVX2__)
  const __m256i a = reinterpret_cast<__m256i>(v[0]), b = reinterpret_cast<__m256i>(v[1]);
  const __m256i c = reinterpret_cast<__m256i>(v[2]), d = reinterpret_cast<__m256i>(v[3]);
  const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
  const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
  v[0] = reinterpret_cast<Words>(_mm256_unpacklo_epi64(ab0, cd0));
  v[1] = reinterpret_cast<Words>(_mm256_unpackhi_epi64(ab0, cd0));
  v[2] = reinterpret_cast<Words>(_mm256_unpacklo_epi64(ab1, cd1));
  v[3] = reinterpret_cast<Words>(_mm256_unpackhi_epi64(ab1, cd1));
#else
  const Words ab0 = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
  const Words ab1 = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const Words cd0 = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
  const Words cd1 = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
#endif
}

// Expands kKeyTile keys to out[head_dim][kKeyTile], and meanwhile fetches the kKeyTile rows that are needed
// next, a line for each that is read: the hardware's prefetchers don't see through rows read 16 bytes at a
// time. Into the second cache: the first one is too small for them (1.3 times slower).
template <bool kBf16>
void transpose_keys(const std::byte* const* keys, const std::byte* const* next, int64_t head_dim,
                    float* out) {
  constexpr int64_t kDims = kBf16 ? 8 : 4;  // in 16 bytes
  const int64_t row_bytes = head_dim * (16 / kDims);
  int64_t next_row = 0, next_offset = 0;
  for (int64_t p = 0; p < kKeyTile; p += kLanes) {
    for (int64_t d = 0; d < head_dim; d += kDims) {
      for (int i = 0; i < kLanes / 4 && next_row < kKeyTile; ++i) {
        __builtin_prefetch(next[next_row] + next_offset, 0, 2);
        next_offset += 64;
        if (next_offset >= row_bytes) next_offset = 0, ++next_row;
      }
      Words v[4];
      for (int i = 0; i < 4; ++i) v[i] = gather_blocks(keys + p, i, d * (16 / kDims));
      transpose_blocks(v);
      for (int i = 0; i < 4; ++i) {
        float* to = out + (d + i * (kDims / 4)) * kKeyTile + p;
        if constexpr (kBf16) {  // each word: two dims, the lower in the lower half
          store(to, reinterpret_cast<Floats>(v[i] << 16));
          store(to + kKeyTile, reinterpret_cast<Floats>(v[i] & 0xFFFF0000));
        } else {
          store(to, reinterpret_cast<Floats>(v[i]));
        }
      }
    }
  }
}

// out[head_dim] of a bf16 row.
void expand_bf16(const std::byte* row, int64_t head_dim, float* out) {
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) store(out + d, load_bf16(row + 2 * d));
  for (; d < head_dim; ++d) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * d, 2);
    const uint32_t wide = uint32_t{bits} << 16;
    std::memcpy(out + d, &wide, 4);
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

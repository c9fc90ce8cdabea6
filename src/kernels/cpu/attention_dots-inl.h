// Attention over a bf16 cache by the bf16 dot product of AVX-512 (vdpbf16ps): queries are rounded to bf16 as
// every input of a product is, and so are the weights of positions. The total that divides a query's values
// is the sum of the rounded weights, so that they still add up to one.
//
//   score   pairs of dims ascending, one chain per position
//   values  pairs of positions (2i, 2i + 1) ascending, one chain per dim. A position that a query does not
//   see
//           is read as zeros with weight 0, never where it lies.
//
// Against fp32 products of the same cache (8 query heads per kv head, 128 dims): half the products, no
// widening. From memory it is still far from a raw read: 24 GB/s of a cache of 4096 positions became 26 to 30
// (rows of a block are fetched a line at a time).
#pragma once

#include "kernels/cpu/attention_source-inl.h"
#include "kernels/cpu/vector-inl.h"

#if defined(__AVX512BF16__)

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kDimsPerVector = 32;

[[gnu::always_inline]] inline __m512bh as_pairs(__m512i words) { return reinterpret_cast<__m512bh>(words); }

// Queries as pairs of dims, [head_dim / 2][kWidth] words, so that one load broadcasts.
template <int kWidth>
void pack_query_pairs(const float* const* q, int64_t head_dim, uint32_t* packed) {
  for (int j = 0; j < kWidth; ++j) {
    for (int64_t d = 0; d < head_dim; d += 16) {
      const __mmask16 live = static_cast<__mmask16>(head_dim - d >= 16 ? 0xFFFF : 0xFF);
      const __m256i rounded =
          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(live, q[j] + d)));
      alignas(32) uint32_t words[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(words), rounded);
      for (int i = 0; i < 8 && d + 2 * i < head_dim; ++i) packed[(d / 2 + i) * kWidth + j] = words[i];
    }
  }
}

// Transposes kKeyTile keys to out[head_dim / 2][kKeyTile] words, and fetches as transpose_keys does.
inline void transpose_key_pairs(const std::byte* const* keys, const std::byte* const* next, int64_t head_dim,
                                uint32_t* out) {
  const int64_t row_bytes = 2 * head_dim;
  int64_t next_row = 0, next_offset = 0;
  for (int64_t p = 0; p < kKeyTile; p += kLanes) {
    for (int64_t d = 0; d < head_dim; d += 8) {
      for (int i = 0; i < kLanes / 4 && next_row < kKeyTile; ++i) {
        __builtin_prefetch(next[next_row] + next_offset, 0, 2);
        next_offset += 64;
        if (next_offset >= row_bytes) next_offset = 0, ++next_row;
      }
      Words v[4];
      for (int i = 0; i < 4; ++i) v[i] = gather_blocks(keys + p, i, 2 * d);
      transpose_blocks(v);
      for (int i = 0; i < 4; ++i) {
        _mm512_store_si512(out + (d / 2 + i) * kKeyTile + p, reinterpret_cast<__m512i>(v[i]));
      }
    }
  }
}

// scores[i][p] = scale · Σ_d q[d][i] · keys[d][p] for one register tile of queries and all kKeyTile
// positions.
template <int kQueries>
void score_key_pairs(const uint32_t* q, const uint32_t* keys, int64_t head_dim, float scale, float* scores) {
  constexpr int kVectors = kKeyTile / kLanes;
  __m512 sums[kQueries][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (int64_t d = 0; d < head_dim / 2; ++d) {
    __m512bh key[kVectors];
    for (int j = 0; j < kVectors; ++j) key[j] = as_pairs(_mm512_load_si512(keys + d * kKeyTile + j * kLanes));
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const __m512bh query = as_pairs(_mm512_set1_epi32(static_cast<int32_t>(q[d * kQueries + i])));
      for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], key[j], query);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    for (int j = 0; j < kVectors; ++j) store(scores + i * kSplit + j * kLanes, sums[i][j] * scale);
  }
}

// Rounds the weights of positions [first, last), both multiples of the vector, in place: pairs of positions
// as words, weight of position 2i at word i. Returns the lanes' sums of what they became.
inline __m512 round_weights(float* weights, int64_t first, int64_t last) {
  auto* words = reinterpret_cast<uint32_t*>(weights);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t p = first; p < last; p += kLanes) {
    const __m256i rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(weights + p)));
    sums = _mm512_add_ps(sums, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + p / 2), rounded);
  }
  return sums;
}

constexpr int64_t kMostDims = 512;
alignas(64) constexpr std::byte kUnseen[2 * kMostDims] = {};

// Dims [0, 16) or [16, 32) of two rows of 32, each with its neighbour of the other row.
struct PairOrder {
  alignas(64) uint16_t index[2][32];
  constexpr PairOrder() : index() {
    for (int h = 0; h < 2; ++h) {
      for (int i = 0; i < 32; ++i) index[h][i] = static_cast<uint16_t>(16 * h + i / 2 + i % 2 * 32);
    }
  }
};
constexpr PairOrder kPairOrder{};

// sums[i][dim …] += Σ_p weights[i][p] · values[p][dim …] over the positions [from, to), for kVectors vectors
// of 32 dims, or `live` of one.
template <int kQueries, int kVectors, bool kPartial = false>
void add_value_pairs(const std::byte* const* rows, int64_t from, int64_t to, const float* weights,
                     int64_t head_dim, int64_t dim, bool fetch, float* sums) {
  const int64_t live = head_dim - dim;
  const __mmask32 mask = kPartial ? static_cast<__mmask32>((uint64_t{1} << live) - 1) : ~__mmask32{0};
  const auto load_row = [&](int64_t p, int v) {
    const std::byte* row = (p < from || p >= to ? kUnseen : rows[p]) + 2 * dim + 64 * v;
    if constexpr (kPartial) return _mm512_maskz_loadu_epi16(mask, row);
    return _mm512_loadu_si512(row);
  };
  const auto half_mask = [&](int h) { return static_cast<__mmask16>(kPartial ? mask >> (16 * h) : 0xFFFF); };
  __m512 sum[kQueries][2 * kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < 2 * kVectors; ++j) {
      sum[i][j] = _mm512_maskz_loadu_ps(half_mask(j % 2), sums + i * head_dim + dim + 16 * j);
    }
  }
  const __m512i low = _mm512_load_si512(kPairOrder.index[0]), high = _mm512_load_si512(kPairOrder.index[1]);
  const auto* words = reinterpret_cast<const uint32_t*>(weights);
  for (int64_t p = from / 2 * 2; p < to; p += 2) {
    if (fetch) {
      for (int v = 0; v < kVectors; ++v) {
        __builtin_prefetch(rows[p + fetch_distance(Stored::bf16)] + 2 * dim + 64 * v, 0, 2);
        __builtin_prefetch(rows[p + 1 + fetch_distance(Stored::bf16)] + 2 * dim + 64 * v, 0, 2);
      }
    }
    __m512bh value[2 * kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i even = load_row(p, v), odd = load_row(p + 1, v);
      value[2 * v] = as_pairs(_mm512_permutex2var_epi16(even, low, odd));
      value[2 * v + 1] = as_pairs(_mm512_permutex2var_epi16(even, high, odd));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const __m512bh weight = as_pairs(_mm512_set1_epi32(static_cast<int32_t>(words[i * kSplit + p / 2])));
#pragma GCC unroll 8
      for (int j = 0; j < 2 * kVectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], value[j], weight);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < 2 * kVectors; ++j) {
      _mm512_mask_storeu_ps(sums + i * head_dim + dim + 16 * j, half_mask(j % 2), sum[i][j]);
    }
  }
}

// The positions [from, to) for one register tile of queries, all dims.
template <int kQueries>
void add_paired_rows(const std::byte* const* rows, int64_t head_dim, int64_t from, int64_t to,
                     const float* weights, bool fetch, float* sums) {
  if (from >= to) return;
  constexpr int kVectors = kQueries == 8 ? 1 : kQueries == 4 ? 2 : 4;
  int64_t dim = 0;
  for (; dim + kVectors * kDimsPerVector <= head_dim; dim += kVectors * kDimsPerVector) {
    add_value_pairs<kQueries, kVectors>(rows, from, to, weights, head_dim, dim, fetch, sums);
  }
  for (; dim + kDimsPerVector <= head_dim; dim += kDimsPerVector) {
    add_value_pairs<kQueries, 1>(rows, from, to, weights, head_dim, dim, fetch, sums);
  }
  if (dim < head_dim) {
    add_value_pairs<kQueries, 1, true>(rows, from, to, weights, head_dim, dim, fetch, sums);
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

// Keys and values that are stored as codes (kernels/op/kv_cache.h), expanded for the tile at hand.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/attention_source-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

typedef int32_t Integers __attribute__((vector_size(4 * kLanes)));
typedef uint8_t CodeBytes __attribute__((vector_size(kLanes)));

// Codes of at most 8 bits, a lane each. Through signed integers: unsigned ones take more instructions on
// AVX2.
[[gnu::always_inline]] inline Floats floats_of_codes(Words codes) {
  return __builtin_convertvector(reinterpret_cast<Integers>(codes), Floats);
}

// A byte to a lane. GCC 12 makes many steps of __builtin_convertvector here.
[[gnu::always_inline]] inline Floats floats_of_bytes(CodeBytes bytes) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(bytes)));
#elif defined(__AVX2__)
  __m128i wide = _mm_setzero_si128();
  std::memcpy(&wide, &bytes, sizeof(bytes));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(wide));
#else
  return floats_of_codes(__builtin_convertvector(bytes, Words));
#endif
}

// The scales and biases of one group, by position, from a slot on.
struct GroupScales {
  Floats scale, bias;
};
[[gnu::always_inline]] inline GroupScales load_scales(const std::byte* scales, int64_t slot) {
  return {load_bf16(scales + 2 * slot), load_bf16(scales + 2 * (kBlockPositions + slot))};
}

// The bytes from one group's scales to the next group's.
constexpr int64_t kGroupScalesBytes = 4 * kBlockPositions;

// Fetches the scales of the keys in the key tile after the one at p, and of the values at p: a line each
// holds a key tile's scales, or its biases, of one group.
inline void fetch_scales(const SplitSource& source, int64_t p) {
  const int64_t after = p + kKeyTile < source.to ? p + kKeyTile : p;
  const std::byte* keys = source.key_scales[after / kBlockPositions] + 2 * (after % kBlockPositions);
  const std::byte* values = source.value_scales[p / kBlockPositions] + 2 * (p % kBlockPositions);
  const int64_t lines = source.head_dim / source.group_size * 2;
  for (int64_t line = 0; line < lines; ++line) {
    __builtin_prefetch(keys + line * 2 * kBlockPositions, 0, 2);
    __builtin_prefetch(values + line * 2 * kBlockPositions, 0, 2);
  }
}

// Expands the keys at positions [first, first + kKeyTile) to out[head_dim][kKeyTile], and meanwhile fetches
// the kKeyTile rows that are needed next. As transpose_keys(), with words of 4 codes (8 bits) or 8 (4 bits).
template <int kBits>
void transpose_codes(const SplitSource& source, int64_t first, const std::byte* const* next, float* out) {
  constexpr int64_t kWordDims = 32 / kBits, kDims = 4 * kWordDims;  // in 4 and in 16 bytes
  constexpr uint32_t kMask = (1 << kBits) - 1;
  const int64_t head_dim = source.head_dim, row_bytes = head_dim * kBits / 8;
  const std::byte* block_scales = source.key_scales[first / kBlockPositions];
  int64_t next_row = 0, next_offset = 0;
  for (int64_t p = 0; p < kKeyTile; p += kLanes) {
    const std::byte* const* rows = source.keys + first + p;
    int64_t group_end = 0;
    const std::byte* scales = block_scales - kGroupScalesBytes;
    GroupScales group;
    for (int64_t d = 0; d < head_dim; d += kDims) {
      for (int i = 0; i < kLanes / 4 && next_row < kKeyTile; ++i) {
        __builtin_prefetch(next[next_row] + next_offset, 0, 2);
        next_offset += 64;
        if (next_offset >= row_bytes) next_offset = 0, ++next_row;
      }
      Words v[4];
      for (int i = 0; i < 4; ++i) v[i] = gather_blocks(rows, i, d * kBits / 8);
      transpose_blocks(v);
      for (int i = 0; i < 4; ++i) {
        const int64_t dim = d + i * kWordDims;
        if (dim >= head_dim) break;  // the block reached beyond the row
        if (dim == group_end) {
          scales += kGroupScalesBytes;
          group = load_scales(scales, (first + p) % kBlockPositions);
          group_end += source.group_size;
        }
        for (int k = 0; k < kWordDims; ++k) {
          // 4 bits: the low halves of the word's bytes, then the high ones.
          const int shift = kBits == 8 ? 8 * k : k % 4 * 8 + k / 4 * 4;
          const Floats code = floats_of_codes(v[i] >> shift & kMask);
          store(out + (dim + k) * kKeyTile + p, multiply_add(code, group.scale, group.bias));
        }
      }
    }
  }
}

// scores[i][p] = scale · Σ_d q[d][i] · key[p][d] for one register tile of queries and the kKeyTile positions
// from `first` on: the bits of score_keys() over transpose_codes(), without the way through memory. For tiers
// with registers enough, and when no other tile of queries wants the expanded keys.
template <int kBits, int kQueries>
void score_codes(const SplitSource& source, int64_t first, const std::byte* const* next, const float* q,
                 float scale, float* scores) {
  constexpr int64_t kWordDims = 32 / kBits, kDims = 4 * kWordDims;
  constexpr int kVectors = kKeyTile / kLanes;
  constexpr uint32_t kMask = (1 << kBits) - 1;
  const int64_t head_dim = source.head_dim, row_bytes = head_dim * kBits / 8;
  const std::byte* const* rows = source.keys + first;
  const std::byte* scales = source.key_scales[first / kBlockPositions];
  int64_t group_end = 0, next_row = 0, next_offset = 0;
  GroupScales group[kVectors] = {};
  Floats sums[kQueries][kVectors] = {};
  for (int64_t d = 0; d < head_dim; d += kDims) {
    for (int i = 0; i < kKeyTile / 4 && next_row < kKeyTile; ++i) {
      __builtin_prefetch(next[next_row] + next_offset, 0, 2);
      next_offset += 64;
      if (next_offset >= row_bytes) next_offset = 0, ++next_row;
    }
    Words v[kVectors][4];
    for (int j = 0; j < kVectors; ++j) {
      for (int i = 0; i < 4; ++i) v[j][i] = gather_blocks(rows + j * kLanes, i, d * kBits / 8);
      transpose_blocks(v[j]);
    }
    for (int i = 0; i < 4; ++i) {
      const int64_t dim = d + i * kWordDims;
      if (dim >= head_dim) break;
      if (dim == group_end) {
        for (int j = 0; j < kVectors; ++j)
          group[j] = load_scales(scales, first % kBlockPositions + j * kLanes);
        scales += kGroupScalesBytes;
        group_end += source.group_size;
      }
      for (int k = 0; k < kWordDims; ++k) {
        const int shift = kBits == 8 ? 8 * k : k % 4 * 8 + k / 4 * 4;
        Floats key[kVectors];
        for (int j = 0; j < kVectors; ++j) {
          key[j] = multiply_add(floats_of_codes(v[j][i] >> shift & kMask), group[j].scale, group[j].bias);
        }
        for (int n = 0; n < kQueries; ++n) {
          const Floats query = broadcast(q[(dim + k) * kQueries + n]);
          for (int j = 0; j < kVectors; ++j) sums[n][j] = multiply_add(query, key[j], sums[n][j]);
        }
      }
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    for (int j = 0; j < kVectors; ++j) store(scores + n * kSplit + j * kLanes, sums[n][j] * scale);
  }
}

// The codes of dims [d, d + kCount) of a row, kCount being kLanes or the 8 of half a vector; zeros in the
// other lanes.
template <int kBits, int kCount>
[[gnu::always_inline]] inline Floats load_codes(const std::byte* row, int64_t d) {
  CodeBytes codes = {};
  if constexpr (kBits == 8) {
    std::memcpy(&codes, row + d, kCount);
  } else if constexpr (kCount == 4) {
    uint32_t packed;
    std::memcpy(&packed, row + d / 8 * 4, 4);
    packed = packed >> d % 8 & 0x0F0F0F0F;
    std::memcpy(&codes, &packed, 4);
  } else {
    uint32_t packed[kCount / 8], unpacked[kCount / 4];
    std::memcpy(packed, row + d / 2, kCount / 2);
    for (int i = 0; i < kCount / 8; ++i) {
      unpacked[2 * i] = packed[i] & 0x0F0F0F0F;
      unpacked[2 * i + 1] = packed[i] >> 4 & 0x0F0F0F0F;
    }
    std::memcpy(&codes, unpacked, kCount);
  }
  return floats_of_bytes(codes);
}

// out[head_dim] of the values at position p.
template <int kBits>
void expand_codes(const SplitSource& source, int64_t p, float* out) {
  const std::byte* row = source.values[p];
  const std::byte* scales = source.value_scales[p / kBlockPositions] + 2 * (p % kBlockPositions);
  for (int64_t start = 0; start < source.head_dim; start += source.group_size) {
    uint16_t stored[2];
    std::memcpy(stored, scales, 2);
    std::memcpy(stored + 1, scales + 2 * kBlockPositions, 2);
    scales += kGroupScalesBytes;
    const Floats scale = broadcast(__builtin_bit_cast(float, uint32_t{stored[0]} << 16));
    const Floats bias = broadcast(__builtin_bit_cast(float, uint32_t{stored[1]} << 16));
    const int64_t end = start + source.group_size;
    int64_t d = start;
    for (; d + kLanes <= end; d += kLanes) {
      store(out + d, multiply_add(load_codes<kBits, kLanes>(row, d), scale, bias));
    }
    if constexpr (kLanes > 8) {
      if (d < end) {
        const Floats half = multiply_add(load_codes<kBits, 8>(row, d), scale, bias);
        std::memcpy(out + d, &half, 32);
      }
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

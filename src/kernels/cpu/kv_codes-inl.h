// Quantising one row of a cache with codes: kernels/op/kv_cache.h has the formula. Every operation of it is
// one of fp32, in a fixed order or one whose order makes no difference, so every tier stores the reference's
// bytes.
//
// The including file defines RAFTER_TIER, the namespace of its tier.
#pragma once

#include "kernels/cpu/kv_rotation-inl.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/op/kv_cache.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kMostHeadDim = 512;

[[gnu::always_inline]] inline float float_of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
[[gnu::always_inline]] inline uint32_t bits_of_float(float x) { return __builtin_bit_cast(uint32_t, x); }

// To the next bf16 value towards −∞ or +∞.
inline float bf16_below(float x) {
  return float_of_bits((x < 0 ? bits_of_float(x) + 0xFFFF : bits_of_float(x)) & 0xFFFF0000);
}
inline float bf16_above(float x) { return -bf16_below(-x); }

struct GroupRange {
  float low, high;
  bool finite;
};

GroupRange range_of(const float* x, int64_t size) {
  int64_t i = kLanes;
  GroupRange range = {x[0], x[0], true};
  float zeros = 0;  // NaN once x · 0 was
  if (size >= kLanes) {
    Floats low = load(x), high = low, sums = low * 0.0f;
    for (; i + kLanes <= size; i += kLanes) {
      const Floats v = load(x + i);
      low = -maximum(-low, -v);
      high = maximum(high, v);
      sums += v * 0.0f;
    }
    range.low = -largest_lane(-low);
    range.high = largest_lane(high);
    zeros = sum_of_lanes(sums);
  } else {
    i = 0;
  }
  for (; i < size; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
    zeros += x[i] * 0.0f;
  }
  range.finite = zeros == 0;
  return range;
}

// Codes of `size` values (a multiple of 8), one a byte.
void make_codes(const float* x, int64_t size, float bias, float inverse, float highest, uint8_t* codes) {
  constexpr float kRounder = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Floats scaled = -maximum(broadcast(-highest), -((load(x + i) - bias) * inverse));
    const Words bits = reinterpret_cast<Words>(scaled + kRounder) & 0xFF;
    const Bytes narrow = __builtin_convertvector(bits, Bytes);
    std::memcpy(codes + i, &narrow, sizeof(narrow));
  }
  for (; i < size; ++i) {
    const float scaled = (x[i] - bias) * inverse;
    codes[i] = static_cast<uint8_t>(bits_of_float((scaled < highest ? scaled : highest) + kRounder));
  }
}

// Each 8 codes to 4 bytes, the first four in the low halves.
void pack_halves(const uint8_t* codes, int64_t size, std::byte* to) {
  for (int64_t i = 0; i < size; i += 8, to += 4) {
    uint32_t low, high;
    std::memcpy(&low, codes + i, 4);
    std::memcpy(&high, codes + i + 4, 4);
    low |= high << 4;
    std::memcpy(to, &low, 4);
  }
}

// A row's codes, one a byte.
void unpack_codes(const KvLayer& cache, const std::byte* row, uint8_t* codes) {
  if (cache.codes.bits == 8) {
    std::memcpy(codes, row, cache.head_dim);
    return;
  }
  for (int64_t d = 0; d < cache.head_dim; d += 8, row += 4) {
    uint32_t packed;
    std::memcpy(&packed, row, 4);
    const uint32_t low = packed & 0x0F0F0F0F, high = packed >> 4 & 0x0F0F0F0F;
    std::memcpy(codes + d, &low, 4);
    std::memcpy(codes + d + 4, &high, 4);
  }
}

// The mean that the key at `slot` is stored relative to; the slot's reference rows are there.
void add_up_keys(const KvLayer& cache, const std::byte* keys, int64_t kv_head, int64_t slot, float* mean) {
  alignas(64) float sums[kMostHeadDim];
  uint8_t codes[kMostHeadDim];
  const int64_t rows = key_reference_rows(slot), size = cache.codes.group_size;
  const auto take_mean = [&](int64_t count) {
    const float part = 1 / static_cast<float>(count);
    for (int64_t d = 0; d < cache.head_dim; ++d) mean[d] = sums[d] * part;
  };
  for (int64_t d = 0; d < cache.head_dim; ++d) sums[d] = mean[d] = 0;
  for (int64_t p = 0; p < rows; ++p) {
    if (p > 0 && key_reference_rows(p) == p) take_mean(p);
    unpack_codes(cache, keys + cache.offset(kv_head, p), codes);
    for (int64_t g = 0; g < cache.groups(); ++g) {
      const std::byte* from = keys + cache.scale_offset(kv_head, p, g);
      uint16_t stored[2];
      std::memcpy(stored, from, 2);
      std::memcpy(stored + 1, from + 2 * kBlockPositions, 2);
      const float scale = float_of_bits(uint32_t{stored[0]} << 16);
      const float bias = float_of_bits(uint32_t{stored[1]} << 16);
      for (int64_t d = g * size; d < (g + 1) * size; ++d)
        sums[d] += (static_cast<float>(codes[d]) * scale + bias) + mean[d];
    }
  }
  if (rows > 0) take_mean(rows);
}

// `side`: the keys or the values of a block. Stores values[head_dim] as the row [kv_head][slot].
template <bool kIsKey>
void quantize_row(const KvLayer& cache, std::byte* side, int64_t kv_head, int64_t slot, const float* values) {
  alignas(64) float x[kMostHeadDim];
  std::memcpy(x, values, cache.head_dim * 4);
  rotate_row(cache, x);
  if constexpr (kIsKey) {
    alignas(64) float mean[kMostHeadDim];
    add_up_keys(cache, side, kv_head, slot, mean);
    for (int64_t d = 0; d < cache.head_dim; ++d) x[d] -= mean[d];
  }
  const int64_t size = cache.codes.group_size;
  const float highest = cache.codes.bits == 8 ? 255.0f : 15.0f;
  uint8_t codes[kMostHeadDim];
  for (int64_t g = 0; g < cache.groups(); ++g) {
    const GroupRange range = range_of(x + g * size, size);
    const float bias = bf16_below(range.low + 0.0f);
    const float exact = (range.high - bias) / highest;
    const float scale = bf16_above(exact > kSmallestKvScale ? exact : kSmallestKvScale);
    uint16_t stored[2] = {static_cast<uint16_t>(bits_of_float(scale) >> 16),
                          static_cast<uint16_t>(bits_of_float(bias) >> 16)};
    if (range.finite && scale < __builtin_inff()) {
      make_codes(x + g * size, size, bias, 1 / scale, highest, codes + g * size);
    } else {
      stored[0] = stored[1] = 0x7FC0;  // NaN
      std::memset(codes + g * size, 0, size);
    }
    std::byte* to = side + cache.scale_offset(kv_head, slot, g);
    std::memcpy(to, stored, 2);
    std::memcpy(to + 2 * kBlockPositions, stored + 1, 2);
  }
  std::byte* row = side + cache.offset(kv_head, slot);
  if (cache.codes.bits == 8) {
    std::memcpy(row, codes, cache.head_dim);
  } else {
    pack_halves(codes, cache.head_dim, row);
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

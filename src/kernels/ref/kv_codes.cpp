#include "kernels/ref/kv_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace rafter::kernels::reference {
namespace {

// To the next bf16 value towards −∞ or +∞.
float bf16_below(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((x < 0 ? bits + 0xFFFF : bits) & 0xFFFF0000);
}
float bf16_above(float x) { return -bf16_below(-x); }

struct Group {
  float scale, bias;
};

Group group_of(const float* x, int64_t size, float highest) {
  const auto [low, high] = std::minmax_element(x, x + size);
  const float bias = bf16_below(*low + 0.0f);  // no −0: its bits would depend on the order of comparisons
  const float scale = bf16_above(std::max((*high - bias) / highest, kSmallestKvScale));
  const bool finite = std::all_of(x, x + size, [](float value) { return std::isfinite(value); });
  if (finite && std::isfinite(scale)) return {scale, bias};
  return {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
}

uint8_t code_of(float x, Group group, float highest) {
  if (std::isnan(group.scale)) return 0;
  return static_cast<uint8_t>(std::nearbyint(std::min((x - group.bias) * (1 / group.scale), highest)));
}

void store_bf16(std::byte* to, float value) {
  const uint16_t bits = tensor::f32_to_bf16(value);
  std::memcpy(to, &bits, 2);
}

// Where the code of an element lies in its row, and by how many bits it is shifted there.
struct CodePlace {
  int64_t byte;
  int shift;
};
CodePlace place_of(const KvCodes& codes, int64_t d) {
  if (codes.bits == 8) return {d, 0};
  return {d / 8 * 4 + d % 4, d % 8 < 4 ? 0 : 4};
}

}  // namespace

void rotate_row(const KvLayer& cache, float* x) {
  const int64_t run = cache.rotated_run();
  for (int64_t begin = 0; begin < cache.head_dim; begin += run) {
    for (int64_t stride = 1; stride < run; stride *= 2) {
      for (int64_t i = 0; i < run; ++i) {
        if ((i & stride) != 0) continue;
        float& a = x[begin + i];
        float& b = x[begin + i + stride];
        const float sum = a + b, difference = a - b;
        a = sum, b = difference;
      }
    }
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(run)));
    for (int64_t i = 0; i < run; ++i) x[begin + i] *= factor;
  }
}

namespace {

// `x`: rotated, less its reference.
void store_row(const KvLayer& cache, std::byte* side, int64_t kv_head, int64_t slot, const float* x) {
  std::byte* row = side + cache.offset(kv_head, slot);
  const auto highest = static_cast<float>((1 << cache.codes.bits) - 1);
  std::fill(row, row + cache.row_bytes(), std::byte{0});
  for (int64_t g = 0; g < cache.groups(); ++g) {
    const int64_t first = g * cache.codes.group_size;
    const Group group = group_of(x + first, cache.codes.group_size, highest);
    std::byte* scale = side + cache.scale_offset(kv_head, slot, g);
    store_bf16(scale, group.scale);
    store_bf16(scale + 2 * kBlockPositions, group.bias);
    for (int64_t d = first; d < first + cache.codes.group_size; ++d) {
      const CodePlace place = place_of(cache.codes, d);
      row[place.byte] |= std::byte(code_of(x[d], group, highest) << place.shift);
    }
  }
}

// scale · code + bias, rounded once: the product is exact.
void load_row(const KvLayer& cache, const std::byte* side, int64_t kv_head, int64_t slot, float* out) {
  const std::byte* row = side + cache.offset(kv_head, slot);
  const int mask = (1 << cache.codes.bits) - 1;
  for (int64_t d = 0; d < cache.head_dim; ++d) {
    const std::byte* scale = side + cache.scale_offset(kv_head, slot, d / cache.codes.group_size);
    const CodePlace place = place_of(cache.codes, d);
    const int code = std::to_integer<int>(row[place.byte]) >> place.shift & mask;
    const float product =
        tensor::bf16_to_f32(tensor::load_unaligned<uint16_t>(scale)) * static_cast<float>(code);
    out[d] = product + tensor::bf16_to_f32(tensor::load_unaligned<uint16_t>(scale + 2 * kBlockPositions));
  }
}

// The first `rows` keys in the rotated basis, and in `mean` that of all of them.
void load_keys(const KvLayer& cache, const std::byte* keys, int64_t kv_head, int64_t rows, float* out,
               std::vector<float>& mean) {
  const auto dims = static_cast<size_t>(cache.head_dim);
  std::vector<float> sums(dims), reference(dims);
  const auto mean_of = [&](int64_t count) {
    std::vector<float> means = sums;
    for (float& value : means) value *= 1 / static_cast<float>(count);
    return means;
  };
  for (int64_t p = 0; p < rows; ++p, out += dims) {
    if (p > 0 && key_reference_rows(p) == p) reference = mean_of(p);
    load_row(cache, keys, kv_head, p, out);
    for (size_t d = 0; d < dims; ++d) sums[d] += out[d] += reference[d];
  }
  if (rows > 0) mean = mean_of(rows);
}

}  // namespace

void quantize_key(const KvLayer& cache, std::byte* keys, int64_t kv_head, int64_t slot, const float* x) {
  std::vector<float> rotated(x, x + cache.head_dim), mean(rotated.size());
  rotate_row(cache, rotated.data());
  const int64_t rows = key_reference_rows(slot);
  std::vector<float> before(static_cast<size_t>(rows * cache.head_dim));
  load_keys(cache, keys, kv_head, rows, before.data(), mean);
  for (size_t d = 0; d < rotated.size(); ++d) rotated[d] -= mean[d];
  store_row(cache, keys, kv_head, slot, rotated.data());
}

void quantize_value(const KvLayer& cache, std::byte* values, int64_t kv_head, int64_t slot, const float* x) {
  std::vector<float> rotated(x, x + cache.head_dim);
  rotate_row(cache, rotated.data());
  store_row(cache, values, kv_head, slot, rotated.data());
}

void dequantize_keys(const KvLayer& cache, const std::byte* keys, int64_t kv_head, int64_t rows, float* out) {
  std::vector<float> mean;
  load_keys(cache, keys, kv_head, rows, out, mean);
  for (int64_t p = 0; p < rows; ++p) rotate_row(cache, out + p * cache.head_dim);
}

void dequantize_value(const KvLayer& cache, const std::byte* values, int64_t kv_head, int64_t slot,
                      float* out) {
  load_row(cache, values, kv_head, slot, out);
  rotate_row(cache, out);
}

}  // namespace rafter::kernels::reference

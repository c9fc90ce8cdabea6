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

void quantize_row(const KvLayer& cache, std::byte* side, int64_t kv_head, int64_t slot, const float* values) {
  std::vector<float> x(values, values + cache.head_dim);
  rotate_row(cache, x.data());
  std::byte* row = side + cache.offset(kv_head, slot);
  const auto highest = static_cast<float>((1 << cache.codes.bits) - 1);
  std::fill(row, row + cache.row_bytes(), std::byte{0});
  for (int64_t g = 0; g < cache.groups(); ++g) {
    const int64_t first = g * cache.codes.group_size;
    const Group group = group_of(x.data() + first, cache.codes.group_size, highest);
    std::byte* scale = side + cache.scale_offset(kv_head, slot, g);
    store_bf16(scale, group.scale);
    store_bf16(scale + 2 * kBlockPositions, group.bias);
    for (int64_t d = first; d < first + cache.codes.group_size; ++d) {
      const CodePlace place = place_of(cache.codes, d);
      row[place.byte] |= std::byte(code_of(x[d], group, highest) << place.shift);
    }
  }
}

void dequantize_row(const KvLayer& cache, const std::byte* side, int64_t kv_head, int64_t slot, float* out) {
  const std::byte* row = side + cache.offset(kv_head, slot);
  const int mask = (1 << cache.codes.bits) - 1;
  for (int64_t d = 0; d < cache.head_dim; ++d) {
    const std::byte* scale = side + cache.scale_offset(kv_head, slot, d / cache.codes.group_size);
    const CodePlace place = place_of(cache.codes, d);
    const int code = std::to_integer<int>(row[place.byte]) >> place.shift & mask;
    out[d] = static_cast<float>(
        double{tensor::bf16_to_f32(tensor::load_unaligned<uint16_t>(scale))} * code +
        tensor::bf16_to_f32(tensor::load_unaligned<uint16_t>(scale + 2 * kBlockPositions)));
  }
  rotate_row(cache, out);
}

}  // namespace rafter::kernels::reference

#include "decode/softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rafter::decode {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kSumBlock =
    256;  // fp32 partial sums this short lose nothing that matters; blocks add in double

// e^x for x ≤ 0 as 2^n · e^r, n = round(x / ln 2), |r| ≤ ln 2 / 2, e^r by its Taylor series to r^7. Below −87
// what comes out is garbage (NaN even, for −inf) and a mask makes it 0: a clamp or a select here stops GCC's
// vectoriser.
inline float exp_negative(float x) {
  constexpr float kSmallest = -87.0f;
  constexpr float kRound =
      12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low mantissa bits
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound)) << 23;
  const uint32_t keep = 0u - static_cast<uint32_t>(x >= kSmallest);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(series) + exponent) & keep);
}

float sum_block(const float* values, size_t count) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  for (; i < count; ++i) lanes[0] += values[i];
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

// Fills out[0 … count) and returns its sum in fp32.
float exponential_block(const float* values, size_t count, float largest, float scale, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = exp_negative((values[i] - largest) * scale);
  return sum_block(out, count);
}

}  // namespace

Largest find_largest(std::span<const float> values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -kInfinity);
  uint32_t bad[kLanes] = {};  // NaN or +inf seen
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
      bad[lane] |= value < kInfinity ? 0u : 1u;
    }
  }
  for (; i < values.size(); ++i) {
    lanes[0] = std::max(lanes[0], values[i]);
    bad[0] |= values[i] < kInfinity ? 0u : 1u;
  }
  Largest largest;
  largest.value = *std::max_element(lanes, lanes + kLanes);
  largest.finite =
      std::none_of(bad, bad + kLanes, [](uint32_t b) { return b != 0; }) && largest.value > -kInfinity;
  if (largest.finite) {
    largest.index =
        static_cast<size_t>(std::find(values.begin(), values.end(), largest.value) - values.begin());
  }
  return largest;
}

double exponentials(std::span<const float> values, float largest, float scale, std::span<float> out) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += kSumBlock) {
    const size_t count = std::min(kSumBlock, values.size() - i);
    sum += exponential_block(values.data() + i, count, largest, scale, out.data() + i);
  }
  return sum;
}

float log_sum_exp(std::span<const float> values, float largest) {
  double sum = 0;
  float block[kSumBlock];
  for (size_t i = 0; i < values.size(); i += kSumBlock) {
    sum += exponential_block(values.data() + i, std::min(kSumBlock, values.size() - i), largest, 1.0f, block);
  }
  return static_cast<float>(largest + std::log(sum));
}

size_t draw_index(std::span<const float> weights, double sum, double unit) {
  double rest = unit * sum;
  size_t last_positive = 0;
  for (size_t begin = 0; begin < weights.size(); begin += kSumBlock) {
    const size_t count = std::min(kSumBlock, weights.size() - begin);
    const float block = sum_block(weights.data() + begin, count);
    if (block > 0 && rest < block) {
      for (size_t i = begin; i < begin + count; ++i) {
        if (weights[i] <= 0) continue;
        last_positive = i;
        if (rest < weights[i]) return i;
        rest -= weights[i];
      }
      return last_positive;  // rounding ate the rest of the block
    }
    rest -= block;
    if (block > 0) last_positive = begin + count - 1;
  }
  while (last_positive > 0 && weights[last_positive] <= 0) --last_positive;
  return last_positive;  // rounding ate the rest of the sum
}

}  // namespace rafter::decode

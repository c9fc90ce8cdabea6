// Products of 4-bit codes by the bf16 dot product of AVX-512 (vdpbf16ps): a code is one of 16 levels, each
// exact in bf16, looked up by a word permute that ignores all but the lowest bits of its index, so that the
// four nibbles of a word need three shifts and no mask. x is rounded to bf16.
//
// Order of summation: steps of 256 columns, whose nibbles are laid out so that all those of a lane share one
// group. Within a step a lane's products form one chain from zero, vector by vector; the chain times the
// group's scale is added to the lane's sum, then (Biases::per_step) the group's bias times the lane's sum of
// x. After the last step come (Biases::per_row) the groups' biases times the sums of x over the groups, then
// lanes are folded in halves. x is padded with zeros to a whole step.
//
// Speed from cache (q4g64, K 1536, one core): 50 GB/s of weights with one row of x, and 81 % of the peak of
// the instruction with eight rows. Tried and lost: integer dot products with x as two signed bytes (vpdpbusd)
// take 8 products as well, fewer instructions per code (66 GB/s with one row, which memory does not feed:
// both read W as fast as it comes) and 4 more per 256 columns and row of x to combine, convert and scale: 66
// % of that peak with eight rows, and small inputs beside large ones lose bits. Codes as 128 + code (or-ing
// them into the significand of 128.0) instead of a lookup: as fast, less exact.
#pragma once

#include "kernels/cpu/matmul_codes-inl.h"
#include "kernels/cpu/matmul_nibbles_input-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// The nibbles of a step: nibble j of word e of nibbles[h] is element e of vector 4h + j.
struct NibbleStep {
  __m512i nibbles[2];
  __m512 scale;  // of each lane's group
  __m512 bias;   // Biases::per_step only
};

// A Format type says how a step is read:
//   Input                        see above
//   kStepBytes, kStepScaleBytes  of data and of scales that a step takes; both proportional to the columns
//   Scale                        Biases::per_row only: load(from, count) → 16 floats, `count` of them live
//   kLevels                      what the 16 codes stand for
//   load(data, scales, step)     reads exactly those bytes

// Levels as bf16, twice: the permute takes five bits of its index.
struct LevelWords {
  alignas(64) uint16_t words[32];
  template <class Level>
  constexpr explicit LevelWords(const Level (&levels)[16]) : words() {
    for (int i = 0; i < 32; ++i) {
      words[i] = __builtin_bit_cast(uint32_t, static_cast<float>(levels[i % 16])) >> 16;
    }
  }
};
template <class Format>
constexpr LevelWords kLevelWords{Format::kLevels};

template <class Format>
[[gnu::always_inline]] inline __m512bh lookup(const NibbleStep& step, int v) {
  const __m512i words = step.nibbles[v / 4];
  const __m512i index = v % 4 == 0 ? words : _mm512_srli_epi16(words, 4 * (v % 4));
  return as_bf16(_mm512_permutexvar_epi16(index, _mm512_load_si512(kLevelWords<Format>.words)));
}

// Copies of the last columns of some rows of W, filled with zeros to a whole step.
template <class Format, int kOutputs>
struct NibbleTails {
  alignas(64) std::byte data[kOutputs][Format::kStepBytes];
  std::byte scales[kOutputs][Format::kStepScaleBytes + 1];

  [[gnu::always_inline]] void fill(int64_t live, CodeRow rows[kOutputs]) {
    std::memset(this, 0, sizeof(*this));
    for (int i = 0; i < kOutputs; ++i) {
      std::memcpy(data[i], rows[i].data, Format::kStepBytes * live / kDotStep);
      if (Format::kStepScaleBytes > 0)
        std::memcpy(scales[i], rows[i].scales, Format::kStepScaleBytes * live / kDotStep);
      rows[i].data = data[i];
      rows[i].scales = scales[i];
    }
  }
};

// One step of kOutputs rows of W times kRows rows of x, added to the lanes' sums.
template <class Format, int kRows, int kOutputs>
[[gnu::always_inline]] inline void add_nibble_step(const NibbleStep step[kOutputs], const std::byte* x,
                                                   int64_t x_stride, __m512 sums[kRows][kOutputs]) {
  __m512 chains[kRows][kOutputs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) chains[r][i] = _mm512_setzero_ps();
  }
#pragma GCC unroll 8
  for (int v = 0; v < kDotVectors; ++v) {
    __m512bh codes[kOutputs];
    for (int i = 0; i < kOutputs; ++i) codes[i] = lookup<Format>(step[i], v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512bh values = as_bf16(_mm512_load_si512(x + r * x_stride + v * kDotVectorBytes));
      for (int i = 0; i < kOutputs; ++i) chains[r][i] = _mm512_dpbf16_ps(chains[r][i], codes[i], values);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) {
      sums[r][i] = _mm512_fmadd_ps(step[i].scale, chains[r][i], sums[r][i]);
      if constexpr (Format::Input::kBiases == Biases::per_step) {
        const __m512 x_sums = _mm512_load_ps(x + r * x_stride + kDotStepBytes);
        sums[r][i] = _mm512_fmadd_ps(step[i].bias, x_sums, sums[r][i]);
      }
    }
  }
}

// Biases::per_row: the groups' biases times the sums of x over the groups, which stand at `x_sums`.
template <class Format, int kRows, int kOutputs>
[[gnu::always_inline]] inline void add_group_biases(const std::byte* const biases[kOutputs], int64_t groups,
                                                    const std::byte* x_sums, int64_t x_stride,
                                                    __m512 sums[kRows][kOutputs]) {
  for (int64_t g = 0; g < groups; g += kLanes, x_sums += kVectorBytes) {
    for (int i = 0; i < kOutputs; ++i) {
      const __m512 bias = Format::Scale::load(biases[i] + g * Format::Scale::kBytes, groups - g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r][i] = _mm512_fmadd_ps(bias, _mm512_load_ps(x_sums + r * x_stride), sums[r][i]);
      }
    }
  }
}

// Folds the lanes of one row of W into its outputs for kRows rows of x.
template <int kRows, int kOutputs>
[[gnu::always_inline]] inline void store_sums(const __m512 sums[kRows][kOutputs], int i, float* out,
                                              int64_t stride) {
  constexpr int kFolded = kRows / 4 * 4;
#pragma GCC unroll 2
  for (int r = 0; r < kFolded; r += 4) {
    const __m128 four = sum_lanes(sums[r][i], sums[r + 1][i], sums[r + 2][i], sums[r + 3][i]);
    float values[4];
    _mm_storeu_ps(values, four);
    for (int j = 0; j < 4; ++j) out[(r + j) * stride] = values[j];
  }
#pragma GCC unroll 4
  for (int r = kFolded; r < kRows; ++r) out[r * stride] = sum_lanes(sums[r][i]);
}

// kOutputs rows of W, n[i], times kRows rows of x from the first of `inputs` on. Rows of W are read once.
template <class Format, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_nibble_rows(const MatmulColumns& work, const CodeRows& rows,
                                                        const int64_t n[kOutputs], int64_t first) {
  using Input = typename Format::Input;
  using Layout = NibbleLayout<Input>;
  const int64_t columns = work.weight->columns, x_stride = work.input_stride;
  const std::byte* const inputs = work.inputs + first * x_stride;
  const std::byte* x = inputs;
  CodeRow row[kOutputs];
  const std::byte* biases[kOutputs];
  __m512 sums[kRows][kOutputs];
  for (int i = 0; i < kOutputs; ++i) {
    row[i] = rows[n[i]];
    biases[i] = row[i].biases;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) sums[r][i] = _mm512_setzero_ps();
  }
  NibbleTails<Format, kOutputs> tails;
  int64_t steps = columns / kDotStep, tail = columns % kDotStep;
  while (true) {
    for (int64_t s = 0; s < steps; ++s, x += Layout::kStepBytes) {
      NibbleStep step[kOutputs];
      for (int i = 0; i < kOutputs; ++i) {
        Format::load(row[i].data, row[i].scales, step[i]);
        fetch_codes<Format::kStepBytes>(row[i].data);
        if (s % 4 == 0) fetch_scales<Format>(row[i], rows);
        row[i].data += Format::kStepBytes;
        row[i].scales += Format::kStepScaleBytes;
      }
      add_nibble_step<Format, kRows, kOutputs>(step, x, x_stride, sums);
    }
    if (tail == 0) break;
    tails.fill(tail, row);
    steps = 1;
    tail = 0;
  }
  if constexpr (Input::kBiases == Biases::per_row) {
    add_group_biases<Format, kRows, kOutputs>(biases, columns / Input::kGroup,
                                              inputs + Layout::sums_offset(columns), x_stride, sums);
  }
  for (int i = 0; i < kOutputs; ++i) {
    store_sums<kRows, kOutputs>(sums, i, work.sums + first * work.sums_stride + n[i] - work.begin,
                                work.sums_stride);
  }
}

// Eight rows of x are taken at a time while they stay in the first-level cache beside the weights.
constexpr int64_t kEightRowsBytes = 32 << 10;

template <class Format>
void multiply_streamed_nibbles(const MatmulColumns& work) {
  const auto multiply = [](const MatmulColumns& run, const CodeRows& rows, const int64_t* n, auto streams,
                           int64_t first, auto count) {
    multiply_nibble_rows<Format, count.value, streams.value>(run, rows, n, first);
  };
  if (8 * work.input_stride <= kEightRowsBytes) return stream_codes<Format, 8>(work, multiply);
  stream_codes<Format, 4>(work, multiply);
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

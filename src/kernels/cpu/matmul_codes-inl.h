// Products of quantised weights by integer dot products (AVX-512 VNNI, vpdpbusd): codes are unsigned bytes, x
// is written in signed base-256 digits.
//
// x. The inputs of a lane over a block of 1024 columns (64 of them) share a power of two, and each becomes an
// integer: with bf16_inputs of 16 bits, two digits, so that inputs down to 1/128 of the largest keep all bits
// of their bf16 and smaller ones err by 2^-16 of the largest; with fp32_inputs of 23 bits, three digits. Sums
// over a lane's codes are then exact, whatever their order, and no code is ever converted to a float: a bf16
// dot product of the same rate (tried first: nibbles through vpermw, bytes through vpermi2b) spends 14 to 45
// vector instructions per 256 columns on that, more than the products themselves, and reached 0.82 (q4g64)
// and 0.63 (q8g64) of this one's speed from cache.
//
// Order of summation. A row of W is read in steps of 256 columns, as four vectors of 64 codes whose lanes are
// laid out so that all codes of a lane share one group. A lane's integer sum of a step, as fp32, times the
// group's scale is added to the block's sum, step by step; the block's sum times the lane's scale of x is
// added to the row's. After the last block come the groups' biases times the sums of x over the groups, then
// lanes are folded in halves. x is laid out in the same way once, and padded with zeros.
#pragma once

#include "kernels/cpu/matmul_blocked-inl.h"
#include "kernels/cpu/matmul_codes_input-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

struct CodeStep {
  __m512i codes[kCodeVectors];
  __m512 scale;  // of each lane's group
  __m512 bias;   // Biases::per_step only
};

// A Format type says how a step is read:
//   Input                        see above
//   kStepBytes, kStepScaleBytes  of data and of scales that a step takes; both proportional to the columns
//   Scale                        Biases::per_row only: load(from, count) → 16 floats, `count` of them live
//   expand(data, scales, step)   reads exactly those bytes

// One row of W as pointers.
struct CodeRow {
  const std::byte* data;
  const std::byte* scales;
  const std::byte* biases;
};
struct CodeRows {
  const std::byte* data;
  const std::byte* scales;
  const std::byte* biases;
  int64_t row_bytes, scale_row_bytes, bias_row_bytes;
  explicit CodeRows(const tensor::MatrixView& w)
      : data(w.data),
        scales(w.scales),
        biases(w.biases),
        row_bytes(w.format.row_bytes(w.columns)),
        scale_row_bytes(w.format.scale_row_bytes(w.columns)),
        bias_row_bytes(w.format.bias_row_bytes(w.columns)) {}
  CodeRow operator[](int64_t n) const {
    return {data + n * row_bytes, scales + n * scale_row_bytes, biases + n * bias_row_bytes};
  }
};

// What a core asks for ahead of its streams: codes, and scales and biases where they lie apart. From memory
// (q4g64, one row, two cores of a machine that reads 80 GB/s): nothing 60 to 79 % of a raw read, by the width
// of W; codes 2 KB ahead and scales 256 bytes 84 to 90, 4 KB 93 to 100, 8 KB 89 to 100; codes alone, without
// the scales, 70. With one stream instead of two 83 to 92, with four 80.
constexpr int64_t kFetchCodes = 4096, kFetchScales = 256;
constexpr int kCodeStreams = 2;

template <int64_t kBytes>
[[gnu::always_inline]] inline void fetch_codes(const std::byte* from) {
  for (int64_t offset = 0; offset < kBytes; offset += 64) __builtin_prefetch(from + kFetchCodes + offset);
}

template <class Format>
[[gnu::always_inline]] inline void fetch_scales(const CodeRow& row, const CodeRows& rows) {
  if constexpr (Format::kStepScaleBytes > 0) __builtin_prefetch(row.scales + kFetchScales);
  if constexpr (Format::Input::kBiases == Biases::per_row) {
    __builtin_prefetch(row.scales + (rows.biases - rows.scales) + kFetchScales);
  }
}

// What the first rows of a run of columns would have asked for, whatever their format.
inline void fetch_run(const MatmulRun& run) {
  if (run.weight == nullptr) return;
  const CodeRows rows(*run.weight);
  const int64_t part = (run.end - run.begin) / kCodeStreams;
  const int64_t ahead = part * rows.row_bytes < kFetchCodes ? part * rows.row_bytes : kFetchCodes;
  for (int i = 0; i < kCodeStreams; ++i) {
    const CodeRow row = rows[run.begin + i * part];
    for (int64_t offset = 0; offset < ahead; offset += 64) __builtin_prefetch(row.data + offset);
    const std::byte* const apart[] = {row.scales, row.biases};
    for (const std::byte* from : apart) {
      if (from == nullptr) continue;
      for (int64_t offset = 0; offset < kFetchScales; offset += 64) __builtin_prefetch(from + offset);
    }
  }
}

// Rows of W in linear streams, up to kMostRows rows of x at a time: calls
// multiply(work, rows of W, n, streams, first row, rows), streams and rows being Counts.
template <class Format, int kMostRows, class Body>
[[gnu::always_inline]] inline void stream_codes(const MatmulColumns& work, const Body& multiply) {
  const CodeRows rows(*work.weight);
  // The last rows of this run ask for nothing new: the first ones of the next are fetched while they last.
  const int64_t last = (work.end - work.begin) / kCodeStreams - kFetchCodes / rows.row_bytes - 1;
  const int64_t fetch_at = work.foresight == nullptr ? -1 : work.begin + (last > 0 ? last : 0);
  for_streams<kCodeStreams, kMostRows>(work, [&](const int64_t* n, auto streams, int64_t first, auto count) {
    if (n[0] == fetch_at && first == 0) fetch_run(work.foresight->next());
    multiply(work, rows, n, streams, first, count);
  });
}

// A step with fewer than 256 columns: its bytes, then zeros.
template <class Format>
[[gnu::noinline]] void expand_tail(const std::byte* data, const std::byte* scales, int64_t live,
                                   CodeStep& step) {
  std::byte padded_data[Format::kStepBytes] = {}, padded_scales[Format::kStepScaleBytes + 1] = {};
  std::memcpy(padded_data, data, Format::kStepBytes * live / kStep);
  if (Format::kStepScaleBytes > 0) std::memcpy(padded_scales, scales, Format::kStepScaleBytes * live / kStep);
  Format::expand(padded_data, padded_scales, step);
}

// What a lane's integer sum starts from, given its extra.
template <bool kHasZero>
[[gnu::always_inline]] inline __m512i start_sum(const std::byte* offset) {
  return kHasZero ? _mm512_load_si512(offset) : _mm512_setzero_si512();
}

// A step of kOutputs rows of W times one prepared step of x, added to the block's sums: every vector of x is
// loaded once for all of them.
template <class Format, int kDigits, int kOutputs>
[[gnu::always_inline]] inline void add_step(const CodeStep steps[kOutputs], const std::byte* x,
                                            __m512 sums[kOutputs]) {
  using Layout = LayoutOf<typename Format::Input, kDigits>;
  __m512i digits[kDigits][kOutputs];
  for (int d = 0; d < kDigits; ++d) {
    const __m512i start =
        d == 0 ? _mm512_setzero_si512()
               : start_sum < Format::Input::kZero != 0 > (x + Layout::kOffsets + (d - 1) * kVectorBytes);
    for (int i = 0; i < kOutputs; ++i) digits[d][i] = start;
    for (int v = 0; v < kCodeVectors; ++v) {
      const __m512i inputs = _mm512_load_si512(x + (d * kCodeVectors + v) * kVectorBytes);
      for (int i = 0; i < kOutputs; ++i) {
        digits[d][i] = _mm512_dpbusd_epi32(digits[d][i], steps[i].codes[v], inputs);
      }
    }
  }
  for (int i = 0; i < kOutputs; ++i) {
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(digits[0][i], 8), digits[1][i]);
    __m512 scale = steps[i].scale;
    if constexpr (kDigits == 3) scale = _mm512_mul_ps(scale, _mm512_set1_ps(256));
    sums[i] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(upper), sums[i]);
    if constexpr (kDigits == 3) {
      sums[i] = _mm512_fmadd_ps(steps[i].scale, _mm512_cvtepi32_ps(digits[2][i]), sums[i]);
    }
  }
}

// kOutputs rows of W, n[i], times kRows rows of x from the first of `inputs` on.
template <class Format, int kDigits, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_rows(const MatmulColumns& work, const CodeRows& rows,
                                                 const int64_t n[kOutputs], int64_t first) {
  using Layout = LayoutOf<typename Format::Input, kDigits>;
  const int64_t columns = work.weight->columns, x_stride = work.input_stride;
  const std::byte* x = work.inputs + first * x_stride;
  CodeRow row[kOutputs];
  __m512 sums[kRows][kOutputs];
  for (int i = 0; i < kOutputs; ++i) {
    row[i] = rows[n[i]];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r][i] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < columns; k += kBlockColumns, x += Layout::kBlockBytes) {
    const int64_t live = columns - k < kBlockColumns ? columns - k : kBlockColumns;
    const std::byte* x_step = x + kVectorBytes;
    __m512 block_sums[kRows][kOutputs];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) block_sums[r][i] = _mm512_setzero_ps();
    }
    if constexpr (Format::Input::kBiases == Biases::per_row) {
      for (int i = 0; i < kOutputs; ++i) fetch_scales<Format>(row[i], rows);
    }
    CodeStep steps[kOutputs];
    const auto add = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const std::byte* from = x_step + r * x_stride;
        add_step<Format, kDigits, kOutputs>(steps, from, block_sums[r]);
        if constexpr (Format::Input::kBiases == Biases::per_step) {
          const __m512 x_sums = _mm512_load_ps(from + Layout::kLaneSums);
          for (int i = 0; i < kOutputs; ++i) sums[r][i] = _mm512_fmadd_ps(steps[i].bias, x_sums, sums[r][i]);
        }
      }
      x_step += Layout::kStepBytes;
    };
    for (int64_t s = kStep; s <= live; s += kStep) {
      for (int i = 0; i < kOutputs; ++i) {
        Format::expand(row[i].data, row[i].scales, steps[i]);
        fetch_codes<Format::kStepBytes>(row[i].data);
        row[i].data += Format::kStepBytes;
        row[i].scales += Format::kStepScaleBytes;
      }
      add();
    }
    if (live % kStep > 0) {
      for (int i = 0; i < kOutputs; ++i) {
        expand_tail<Format>(row[i].data, row[i].scales, live % kStep, steps[i]);
      }
      add();
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512 units = _mm512_load_ps(x + r * x_stride);
      for (int i = 0; i < kOutputs; ++i) sums[r][i] = _mm512_fmadd_ps(units, block_sums[r][i], sums[r][i]);
    }
  }
  if constexpr (Format::Input::kBiases == Biases::per_row) {
    const std::byte* x_sums = work.inputs + first * x_stride + Layout::sums_offset(columns);
    const int64_t groups = columns / Format::Input::kGroup;
    for (int64_t g = 0; g < groups; g += kLanes, x_sums += kVectorBytes) {
      for (int i = 0; i < kOutputs; ++i) {
        const __m512 bias = Format::Scale::load(row[i].biases + g * Format::Scale::kBytes, groups - g);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          sums[r][i] = _mm512_fmadd_ps(bias, _mm512_load_ps(x_sums + r * x_stride), sums[r][i]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) {
      work.sums[(first + r) * work.sums_stride + n[i] - work.begin] = sum_lanes(sums[r][i]);
    }
  }
}

template <class Format, int kDigits>
void multiply_streamed(const MatmulColumns& work) {
  constexpr int kMostRows = kDigits == 2 ? 4 : 2;
  stream_codes<Format, kMostRows>(work, [](const MatmulColumns& run, const CodeRows& rows, const int64_t* n,
                                           auto streams, int64_t first, auto count) {
    multiply_rows<Format, kDigits, count.value, streams.value>(run, rows, n, first);
  });
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

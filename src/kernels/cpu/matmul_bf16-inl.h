// Products of bf16 weights by the bf16 dot product of AVX-512 (vdpbf16ps). x is rounded to bf16, or split
// into a bf16 high part and a bf16 remainder (16 significand bits).
//
// Order of summation: steps of 256 columns, eight vectors of 32. Within a step each lane's products form one
// chain from zero, vector by vector (all high parts, then all remainders), which is added to the lane's sum;
// lanes are folded in halves at the end. x is padded with zeros to a whole step.
#pragma once

#if defined(__AVX512F__)

#include "kernels/cpu/matmul_blocked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kDotStep = 256;  // columns
constexpr int kDotVectors = 8;     // of 32 values per step
constexpr int64_t kDotVectorBytes = 64;
constexpr int64_t kDotStepBytes = kDotVectors * kDotVectorBytes;

[[gnu::always_inline]] inline __m512bh as_bf16(__m512i words) { return reinterpret_cast<__m512bh>(words); }

inline int64_t dot_steps(int64_t columns) { return (columns + kDotStep - 1) / kDotStep; }

template <int kParts>
int64_t bf16_input_bytes(int64_t columns) {
  return dot_steps(columns) * kParts * kDotStepBytes;
}

// Per step kParts·8 vectors: high parts, then remainders.
template <int kParts>
void prepare_bf16(const float* x, int64_t columns, std::byte* prepared) {
  for (int64_t k = 0; k < columns; k += kDotStep, prepared += kParts * kDotStepBytes) {
    alignas(64) float tail[kDotStep];
    const float* from = x + k;
    if (columns - k < kDotStep) {
      std::memset(tail, 0, sizeof(tail));
      std::memcpy(tail, from, 4 * (columns - k));
      from = tail;
    }
    for (int v = 0; v < kDotVectors; ++v) {
      const __m512 x0 = _mm512_loadu_ps(from + 32 * v), x1 = _mm512_loadu_ps(from + 32 * v + 16);
      const __m512i high = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x1, x0));
      _mm512_store_si512(prepared + v * kDotVectorBytes, high);
      if constexpr (kParts == 2) {
        const __m512i h0 = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(high));
        const __m512i h1 = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1));
        const __m512 rest0 = _mm512_sub_ps(x0, _mm512_castsi512_ps(_mm512_slli_epi32(h0, 16)));
        const __m512 rest1 = _mm512_sub_ps(x1, _mm512_castsi512_ps(_mm512_slli_epi32(h1, 16)));
        _mm512_store_si512(prepared + kDotStepBytes + v * kDotVectorBytes,
                           reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(rest1, rest0)));
      }
    }
  }
}

// A step of kOutputs rows of W times one prepared step of x, added to the lanes' sums.
template <int kParts, int kOutputs>
[[gnu::always_inline]] inline void add_dots(const std::byte* const weights[kOutputs], const std::byte* x,
                                            __m512 sums[kOutputs]) {
  __m512 chains[kOutputs];
  for (int i = 0; i < kOutputs; ++i) chains[i] = _mm512_setzero_ps();
  for (int p = 0; p < kParts; ++p) {
    for (int v = 0; v < kDotVectors; ++v) {
      const __m512bh inputs = as_bf16(_mm512_load_si512(x + p * kDotStepBytes + v * kDotVectorBytes));
      for (int i = 0; i < kOutputs; ++i) {
        chains[i] = _mm512_dpbf16_ps(chains[i], as_bf16(_mm512_loadu_si512(weights[i] + v * kDotVectorBytes)),
                                     inputs);
      }
    }
  }
  for (int i = 0; i < kOutputs; ++i) sums[i] = _mm512_add_ps(sums[i], chains[i]);
}

// kOutputs rows of W, n[i], times kRows rows of x, each read once.
template <int kParts, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_bf16_rows(const MatmulColumns& work, const int64_t n[kOutputs],
                                                      int64_t first) {
  const int64_t columns = work.weight->columns, tail = columns % kDotStep;
  const std::byte* weights[kOutputs];
  for (int i = 0; i < kOutputs; ++i) weights[i] = work.weight->data + 2 * n[i] * columns;
  const std::byte* x = work.inputs + first * work.input_stride;
  __m512 sums[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) sums[r][i] = _mm512_setzero_ps();
  }
  const auto add = [&]() __attribute__((always_inline)) {
    for (int r = 0; r < kRows; ++r) add_dots<kParts, kOutputs>(weights, x + r * work.input_stride, sums[r]);
  };
  for (int64_t k = kDotStep; k <= columns; k += kDotStep, x += kParts * kDotStepBytes) {
    add();
    for (int i = 0; i < kOutputs; ++i) weights[i] += kDotStepBytes;
  }
  if (tail > 0) {
    alignas(64) std::byte padded[kOutputs][kDotStepBytes] = {};
    for (int i = 0; i < kOutputs; ++i) {
      std::memcpy(padded[i], weights[i], 2 * tail);
      weights[i] = padded[i];
    }
    add();
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) {
      work.sums[(first + r) * work.sums_stride + n[i] - work.begin] = sum_lanes(sums[r][i]);
    }
  }
}

template <int kParts>
struct Bf16Panel : NoTail {
  using Tile = Bf16Panel;
  static constexpr int64_t kColumns = 1024;
  static constexpr int kOutputs = 8;
  static constexpr int64_t kBytes = 2 * kColumns;
  static constexpr int kTileRows = 3;
  static constexpr int64_t kFetchColumns = kDotStep;

  static int64_t input_offset(int64_t k) { return k / kDotStep * kParts * kDotStepBytes; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    std::memcpy(panel, weight.data + 2 * (n * weight.columns + k), 2 * live);
    std::memset(panel + 2 * live, 0, dot_steps(live) * kDotStepBytes - 2 * live);
  }

  template <int kRows, int kOutputs>
  [[gnu::always_inline]] static void tile(const std::byte* x, int64_t x_stride, const std::byte* panel,
                                          int64_t live, const PanelFetch& fetch, const TileSums& sums) {
    __m512 totals[kRows][kOutputs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) totals[r][i] = sums.start(r, i);
    }
    for (int64_t s = 0; s < live; s += kDotStep, panel += kDotStepBytes) {
      fetch(s / kDotStep);
      __m512 chains[kRows][kOutputs];
      for (auto& row : chains) {
        for (auto& chain : row) chain = _mm512_setzero_ps();
      }
      for (int p = 0; p < kParts; ++p, x += kDotStepBytes) {
        for (int v = 0; v < kDotVectors; ++v) {
          __m512i weights[kOutputs];
          for (int i = 0; i < kOutputs; ++i) {
            weights[i] = in_register(_mm512_load_si512(panel + i * kBytes + v * kDotVectorBytes));
          }
          for (int r = 0; r < kRows; ++r) {
            const __m512i input = in_register(_mm512_load_si512(x + r * x_stride + v * kDotVectorBytes));
            for (int i = 0; i < kOutputs; ++i) add_bf16(chains[r][i], weights[i], input);
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kOutputs; ++i) totals[r][i] = _mm512_add_ps(totals[r][i], chains[r][i]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) store(sums.place(r, i), totals[r][i]);
    }
  }
};

template <int kParts>
void multiply_bf16(const MatmulColumns& work) {
  if (work.rows > 4) return multiply_blocked<Bf16Panel<kParts>>(work);
  for_streams<2, 4>(work, [&](const int64_t* n, auto streams, int64_t first, auto rows) {
    multiply_bf16_rows<kParts, rows.value, streams.value>(work, n, first);
  });
}

template <int kParts>
MatmulBody bf16_body_of() {
  return {bf16_input_bytes<kParts>, prepare_bf16<kParts>, blocked_scratch_bytes<Bf16Panel<kParts>>,
          multiply_bf16<kParts>};
}

inline MatmulBody bf16_body(MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16_inputs ? bf16_body_of<1>() : bf16_body_of<2>();
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

#endif

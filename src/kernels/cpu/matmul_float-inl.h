// Products of fp32 weights and fp32 inputs: for formats whose weights no bf16 dot product holds exactly, and
// for all formats in tiers without one. Weights are expanded to fp32 by the format's decoder, a panel of
// columns at a time, and multiplied while the panel is in the first-level cache.
//
// Order of summation: kLanes lanes run along k (lane l takes k ≡ l mod kLanes, ascending), then lanes are
// folded in halves. A tail shorter than the padding is filled with zeros, which changes no sum.
#pragma once

#include "kernels/cpu/matmul_driver.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kFloatPanel = 512;   // columns of W expanded at once; a multiple of every format's block
constexpr int64_t kFloatPadding = 64;  // x is padded to a multiple
constexpr int kFloatTileOutputs = 4;   // rows of W per tile …
constexpr int kFloatTileRows = kLanes == 16 ? 4 : 2;  // … by rows of x: its sums stay in registers

inline int64_t padded(int64_t columns) {
  return (columns + kFloatPadding - 1) / kFloatPadding * kFloatPadding;
}

inline int64_t float_input_bytes(int64_t columns) { return 4 * padded(columns); }

template <bool kRound>
void prepare_float(const float* x, int64_t columns, std::byte* prepared) {
  float* out = reinterpret_cast<float*>(prepared);
  for (int64_t k = 0; k < columns; ++k) {
    uint32_t bits;
    std::memcpy(&bits, x + k, 4);
    if (kRound) {  // tensor::round_to_bf16, in a form that vectorises
      const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
      const uint32_t quiet = (bits & 0xFFFF0000u) | 0x400000;
      bits = (bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded;
    }
    std::memcpy(out + k, &bits, 4);
  }
  std::memset(out + columns, 0, 4 * (padded(columns) - columns));
}

inline float sum_lanes(Floats v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// sums[r][n] += Σ over `width` columns of x[r] · w[n].
template <int kRows, int kOutputs>
[[gnu::always_inline]] inline void float_tile(const float* x, int64_t x_stride, const float* w, int64_t width,
                                              float* sums, int64_t sums_stride) {
  Floats acc[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) acc[r][n] = load(sums + r * sums_stride + n * kLanes);
  }
  for (int64_t k = 0; k < width; k += kLanes) {
    Floats weights[kOutputs];
    for (int n = 0; n < kOutputs; ++n) weights[n] = load(w + n * kFloatPanel + k);
    for (int r = 0; r < kRows; ++r) {
      const Floats input = load(x + r * x_stride + k);
      for (int n = 0; n < kOutputs; ++n) acc[r][n] = multiply_add(weights[n], input, acc[r][n]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) store(sums + r * sums_stride + n * kLanes, acc[r][n]);
  }
}

template <int kOutputs>
void float_rows(int64_t rows, const float* x, int64_t x_stride, const float* w, int64_t width, float* sums) {
  constexpr int64_t kSumsStride = kFloatTileOutputs * kLanes;
  int64_t r = 0;
  for (; r + kFloatTileRows <= rows; r += kFloatTileRows) {
    float_tile<kFloatTileRows, kOutputs>(x + r * x_stride, x_stride, w, width, sums + r * kSumsStride,
                                         kSumsStride);
  }
  for (; r < rows; ++r) {
    float_tile<1, kOutputs>(x + r * x_stride, x_stride, w, width, sums + r * kSumsStride, kSumsStride);
  }
}

// Scratch: the panel [outputs][kFloatPanel], then sums [rows][outputs][kLanes].
constexpr int64_t kFloatPanelBytes = 4 * kFloatTileOutputs * kFloatPanel;
inline int64_t float_scratch_bytes(int64_t, int64_t rows) {
  return kFloatPanelBytes + 4 * rows * kFloatTileOutputs * kLanes;
}

// Decoder::decode(weight, n, k, count, out) expands W[n, k … k + count) to fp32.
template <class Decoder>
void multiply_float(const MatmulColumns& work) {
  float* panel = reinterpret_cast<float*>(work.scratch);
  float* sums = reinterpret_cast<float*>(work.scratch + kFloatPanelBytes);
  const int64_t columns = work.weight->columns;
  const float* inputs = reinterpret_cast<const float*>(work.inputs);
  for (int64_t n = work.begin; n < work.end; n += kFloatTileOutputs) {
    const int outputs = static_cast<int>(work.end - n < kFloatTileOutputs ? work.end - n : kFloatTileOutputs);
    std::memset(sums, 0, 4 * work.rows * kFloatTileOutputs * kLanes);
    for (int64_t k = 0; k < columns; k += kFloatPanel) {
      const int64_t live = columns - k < kFloatPanel ? columns - k : kFloatPanel;
      const int64_t width = padded(live);
      for (int i = 0; i < outputs; ++i) {
        Decoder::decode(*work.weight, n + i, k, live, panel + i * kFloatPanel);
        std::memset(panel + i * kFloatPanel + live, 0, 4 * (width - live));
      }
      if (outputs == kFloatTileOutputs) {
        float_rows<kFloatTileOutputs>(work.rows, inputs + k, work.input_stride / 4, panel, width, sums);
        continue;
      }
      for (int i = 0; i < outputs; ++i) {
        float_rows<1>(work.rows, inputs + k, work.input_stride / 4, panel + i * kFloatPanel, width,
                      sums + i * kLanes);
      }
    }
    for (int64_t r = 0; r < work.rows; ++r) {
      for (int i = 0; i < outputs; ++i) {
        work.sums[r * work.sums_stride + n - work.begin + i] =
            sum_lanes(load(sums + (r * kFloatTileOutputs + i) * kLanes));
      }
    }
  }
}

template <class Decoder>
MatmulBody float_body(MatmulPrecision precision) {
  const bool round = precision == MatmulPrecision::bf16_inputs;
  return {float_input_bytes, round ? prepare_float<true> : prepare_float<false>, float_scratch_bytes,
          multiply_float<Decoder>};
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

// The panel of 4-bit weights: codes looked up as bf16, multiplied by blocks of x (matmul_blocked-inl.h).
#pragma once

#include "kernels/cpu/matmul_codes_panel-inl.h"
#include "kernels/cpu/matmul_nibbles-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// A panel holds, per step, the eight vectors, then the lanes' scales, then biases of the step.
template <class Input>
struct NibbleTile {
  using Layout = NibbleLayout<Input>;
  static constexpr int64_t kColumns = 1024;
  static constexpr int64_t kStepBytes =
      kDotStepBytes + (Input::kBiases == Biases::per_step ? 2 : 1) * kVectorBytes;
  static constexpr int64_t kBytes = kColumns / kDotStep * kStepBytes;
  static constexpr int kTileRows = 3;
  static constexpr int64_t kFetchColumns = kDotStep;

  template <int kRows, int kOutputs>
  [[gnu::always_inline]] static void tile(const std::byte* x, int64_t x_stride, const std::byte* panel,
                                          int64_t live, const PanelFetch& fetch, const TileSums& sums) {
    __m512 totals[kRows][kOutputs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) totals[r][i] = sums.start(r, i);
    }
    for (int64_t s = 0; s < live; s += kDotStep, panel += kStepBytes, x += Layout::kStepBytes) {
      fetch(s / kDotStep);
      __m512 chains[kRows][kOutputs];
      for (auto& row : chains) {
        for (auto& chain : row) chain = _mm512_setzero_ps();
      }
      for (int v = 0; v < kDotVectors; ++v) {
        __m512i codes[kOutputs];
        for (int i = 0; i < kOutputs; ++i) {
          codes[i] = in_register(_mm512_load_si512(panel + i * kBytes + v * kDotVectorBytes));
        }
        for (int r = 0; r < kRows; ++r) {
          const __m512i values = in_register(_mm512_load_si512(x + r * x_stride + v * kDotVectorBytes));
          for (int i = 0; i < kOutputs; ++i) add_bf16(chains[r][i], codes[i], values);
        }
      }
      for (int i = 0; i < kOutputs; ++i) {
        const std::byte* extras = panel + i * kBytes + kDotStepBytes;
        const __m512 scale = _mm512_load_ps(extras);
        for (int r = 0; r < kRows; ++r) {
          totals[r][i] = _mm512_fmadd_ps(scale, chains[r][i], totals[r][i]);
          if constexpr (Input::kBiases == Biases::per_step) {
            totals[r][i] = _mm512_fmadd_ps(_mm512_load_ps(extras + kVectorBytes),
                                           _mm512_load_ps(x + r * x_stride + kDotStepBytes), totals[r][i]);
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) store(sums.place(r, i), totals[r][i]);
    }
  }
};

template <class Format>
struct NibblePanel : RowBiases<Format, NibbleLayout<typename Format::Input>> {
  using Input = typename Format::Input;
  using Tile = NibbleTile<Input>;
  using Layout = NibbleLayout<Input>;
  static constexpr int64_t kColumns = Tile::kColumns;
  static constexpr int kOutputs = 8;

  static int64_t input_offset(int64_t k) { return k / kDotStep * Layout::kStepBytes; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    CodeRow row[1] = {CodeRows(weight)[n]};
    row->data += k / kDotStep * Format::kStepBytes;
    row->scales += k / kDotStep * Format::kStepScaleBytes;
    NibbleTails<Format, 1> tails;
    for (int64_t s = 0; s < live; s += kDotStep, panel += Tile::kStepBytes) {
      if (live - s < kDotStep) tails.fill(live - s, row);
      NibbleStep step;
      Format::load(row->data, row->scales, step);
      for (int v = 0; v < kDotVectors; ++v) {
        _mm512_store_si512(panel + v * kDotVectorBytes, reinterpret_cast<__m512i>(lookup<Format>(step, v)));
      }
      _mm512_store_ps(panel + kDotStepBytes, step.scale);
      if constexpr (Input::kBiases == Biases::per_step)
        _mm512_store_ps(panel + kDotStepBytes + kVectorBytes, step.bias);
      row->data += Format::kStepBytes;
      row->scales += Format::kStepScaleBytes;
    }
  }
};

template <class Format>
void multiply_nibbles(const MatmulColumns& work) {
  if (work.rows <= kFewRows) return multiply_streamed_nibbles<Format>(work);
  multiply_blocked<NibblePanel<Format>>(work);
}

// With bf16 inputs by bf16 dot products of `Nibbles`, with fp32 inputs by integer ones of `Codes`.
template <class Nibbles, class Codes>
MatmulBody nibbles_body(MatmulPrecision precision) {
  if (precision == MatmulPrecision::fp32_inputs) return codes_body_of<Codes, 3>();
  using Input = typename Nibbles::Input;
  return {nibble_input_bytes<Input>, prepare_nibbles<Input>, blocked_scratch_bytes<NibblePanel<Nibbles>>,
          multiply_nibbles<Nibbles>};
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

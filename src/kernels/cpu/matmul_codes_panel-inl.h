// The panel of quantised weights: codes expanded to bytes, multiplied by blocks of x (matmul_blocked-inl.h).
#pragma once

#include "kernels/cpu/matmul_codes-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// A panel is one block of columns; it holds, per step, the four vectors, then the lanes' scales, then biases
// of the step. How it is multiplied is the same for all formats with the same kinds of extras.
template <int kDigits, bool kHasZero, bool kStepBiases>
struct CodeTile {
  using Layout = InputLayout<kDigits, kHasZero, kStepBiases>;
  static constexpr int64_t kScale = kCodeVectors * kVectorBytes;  // offset in a step
  static constexpr int64_t kStepBytes = kScale + (kStepBiases ? 2 : 1) * kVectorBytes;
  static constexpr int64_t kBytes = kBlockSteps * kStepBytes;
  static constexpr int kTileRows = 4;
  static constexpr int64_t kFetchColumns = kStep;

  // One digit of a step, added to the integer sums.
  template <int kRows, int kOutputs>
  [[gnu::always_inline]] static void add_digit(const std::byte* digits, int64_t x_stride,
                                               const std::byte* panel, __m512i sums[kRows][kOutputs]) {
    for (int v = 0; v < kCodeVectors; ++v) {
      __m512i codes[kOutputs];
      for (int i = 0; i < kOutputs; ++i) codes[i] = _mm512_load_si512(panel + i * kBytes + v * kVectorBytes);
      for (int r = 0; r < kRows; ++r) {
        const __m512i x = _mm512_load_si512(digits + r * x_stride + v * kVectorBytes);
        for (int i = 0; i < kOutputs; ++i) sums[r][i] = _mm512_dpbusd_epi32(sums[r][i], codes[i], x);
      }
    }
  }

  // Integer sums times scales, added to the block's sums.
  template <int kRows, int kOutputs>
  [[gnu::always_inline]] static void scale_sums(const std::byte* panel, float factor,
                                                const __m512i sums[kRows][kOutputs],
                                                float block_sums[kRows][kOutputs][kLanes]) {
    for (int i = 0; i < kOutputs; ++i) {
      __m512 scale = _mm512_load_ps(panel + i * kBytes + kScale);
      if (factor != 1) scale = _mm512_mul_ps(scale, _mm512_set1_ps(factor));
      for (int r = 0; r < kRows; ++r) {
        _mm512_store_ps(block_sums[r][i], _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[r][i]),
                                                          _mm512_load_ps(block_sums[r][i])));
      }
    }
  }

  template <int kRows, int kOutputs>
  static void tile(const std::byte* x, int64_t x_stride, const std::byte* panel, int64_t live,
                   const PanelFetch& fetch, const TileSums& row_sums) {
    constexpr int64_t kDigitBytes = kCodeVectors * kVectorBytes;
    alignas(64) float block_sums[kRows][kOutputs][kLanes] = {};
    __m512i sums[kRows][kOutputs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) store(row_sums.place(r, i), row_sums.start(r, i));
    }
    const std::byte* digits = x + kVectorBytes;
    for (int64_t s = 0; s < live; s += kStep, digits += Layout::kStepBytes, panel += kStepBytes) {
      fetch(s / kStep);
      for (auto& row : sums) {
        for (auto& sum : row) sum = _mm512_setzero_si512();
      }
      add_digit<kRows, kOutputs>(digits, x_stride, panel, sums);
      for (int r = 0; r < kRows; ++r) {
        const __m512i start = start_sum<kHasZero>(digits + r * x_stride + Layout::kOffsets);
        for (int i = 0; i < kOutputs; ++i) {
          sums[r][i] = _mm512_slli_epi32(sums[r][i], 8);
          if (kHasZero) sums[r][i] = _mm512_add_epi32(sums[r][i], start);
        }
      }
      add_digit<kRows, kOutputs>(digits + kDigitBytes, x_stride, panel, sums);
      scale_sums<kRows, kOutputs>(panel, kDigits == 3 ? 256 : 1, sums, block_sums);
      if constexpr (kDigits == 3) {
        for (int r = 0; r < kRows; ++r) {
          const __m512i start = start_sum<kHasZero>(digits + r * x_stride + Layout::kOffsets + kVectorBytes);
          for (int i = 0; i < kOutputs; ++i) sums[r][i] = start;
        }
        add_digit<kRows, kOutputs>(digits + 2 * kDigitBytes, x_stride, panel, sums);
        scale_sums<kRows, kOutputs>(panel, 1, sums, block_sums);
      }
      if constexpr (kStepBiases) add_step_biases<kRows, kOutputs>(digits, x_stride, panel, row_sums);
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512 units = _mm512_load_ps(x + r * x_stride);
      for (int i = 0; i < kOutputs; ++i) {
        float* place = row_sums.place(r, i);
        _mm512_store_ps(place,
                        _mm512_fmadd_ps(units, _mm512_load_ps(block_sums[r][i]), _mm512_load_ps(place)));
      }
    }
  }

  template <int kRows, int kOutputs>
  static void add_step_biases(const std::byte* digits, int64_t x_stride, const std::byte* panel,
                              const TileSums& row_sums) {
    for (int r = 0; r < kRows; ++r) {
      const __m512 x_sums = _mm512_load_ps(digits + r * x_stride + Layout::kLaneSums);
      for (int i = 0; i < kOutputs; ++i) {
        float* place = row_sums.place(r, i);
        const __m512 bias = _mm512_load_ps(panel + i * kBytes + kScale + kVectorBytes);
        _mm512_store_ps(place, _mm512_fmadd_ps(bias, x_sums, _mm512_load_ps(place)));
      }
    }
  }
};

// What is added once per row of W with Biases::per_row: the groups' biases times the sums of x over the
// groups, which lie at Layout::sums_offset of prepared rows.
template <class Format, class Layout>
struct RowBiases {
  static constexpr bool kHasBiases = Format::Input::kBiases == Biases::per_row;

  static int64_t tail_floats(int64_t columns) {
    return kHasBiases ? (columns / Format::Input::kGroup + kLanes - 1) / kLanes * kLanes : 0;
  }
  static void expand_tail(const tensor::MatrixView& weight, int64_t n, float* tail) {
    if constexpr (kHasBiases) {
      const std::byte* biases = CodeRows(weight)[n].biases;
      const int64_t groups = weight.columns / Format::Input::kGroup;
      for (int64_t g = 0; g < groups; g += kLanes) {
        _mm512_store_ps(tail + g, Format::Scale::load(biases + g * Format::Scale::kBytes, groups - g));
      }
    }
  }
  static int64_t tail_offset(int64_t columns) { return Layout::sums_offset(columns); }
  [[gnu::always_inline]] static void add_tail(const float* tails, int64_t floats, const std::byte* x,
                                              Floats sums[kTileOutputs]) {
    if constexpr (kHasBiases) {
      for (int64_t g = 0; g < floats; g += kLanes) {
        const __m512 x_sums = _mm512_load_ps(x + 4 * g);
        for (int i = 0; i < kTileOutputs; ++i) {
          sums[i] = _mm512_fmadd_ps(_mm512_load_ps(tails + i * floats + g), x_sums, sums[i]);
        }
      }
    }
  }
};

template <class Format, int kDigits>
struct CodePanel : RowBiases<Format, LayoutOf<typename Format::Input, kDigits>> {
  using Tile = CodeTile<kDigits, Format::Input::kZero != 0, Format::Input::kBiases == Biases::per_step>;
  using Layout = typename Tile::Layout;
  static constexpr int64_t kColumns = kBlockColumns;
  static constexpr int kOutputs = 8;

  static int64_t input_offset(int64_t k) { return k / kBlockColumns * Layout::kBlockBytes; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    CodeRow row = CodeRows(weight)[n];
    row.data += k / kStep * Format::kStepBytes;
    row.scales += k / kStep * Format::kStepScaleBytes;
    for (int64_t s = 0; s < live; s += kStep, panel += Tile::kStepBytes) {
      CodeStep step;
      if (live - s >= kStep) {
        Format::expand(row.data, row.scales, step);
      } else {
        expand_tail<Format>(row.data, row.scales, live - s, step);
      }
      for (int v = 0; v < kCodeVectors; ++v) _mm512_store_si512(panel + v * kVectorBytes, step.codes[v]);
      _mm512_store_ps(panel + Tile::kScale, step.scale);
      if constexpr (Format::Input::kBiases == Biases::per_step)
        _mm512_store_ps(panel + Tile::kScale + kVectorBytes, step.bias);
      row.data += Format::kStepBytes;
      row.scales += Format::kStepScaleBytes;
    }
  }
};

// Up to this many rows of x, weights are expanded once for every four: beyond, panels are faster (q8g64, 16
// rows: by a tenth). Fewer where expanding costs more than multiplying.
template <class Format>
constexpr int64_t kStreamedRows = 8;

template <class Format, int kDigits>
void multiply_codes(const MatmulColumns& work) {
  if (work.rows <= kStreamedRows<Format>) return multiply_streamed<Format, kDigits>(work);
  multiply_blocked<CodePanel<Format, kDigits>>(work);
}

template <class Format, int kDigits>
MatmulBody codes_body_of() {
  using Input = typename Format::Input;
  return {code_input_bytes<Input, kDigits>, prepare_codes<Input, kDigits>,
          blocked_scratch_bytes<CodePanel<Format, kDigits>>, multiply_codes<Format, kDigits>};
}

template <class Format>
MatmulBody codes_body(MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16_inputs ? codes_body_of<Format, 2>() : codes_body_of<Format, 3>();
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

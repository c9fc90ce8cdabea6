// Products of fp32 weights and fp32 inputs: for formats whose weights no bf16 dot product holds exactly, and
// for all formats in tiers without one. Weights are expanded to fp32 by the format's decoder.
//
// Order of summation: kLanes lanes run along k (lane l takes k ≡ l mod kLanes, ascending), then lanes are
// folded in halves. A tail shorter than the padding is filled with zeros, which changes no sum.
#pragma once

#include "kernels/cpu/matmul_blocked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kFloatPadding = 64;  // x and panels are padded to a multiple

inline int64_t padded(int64_t columns) {
  return (columns + kFloatPadding - 1) / kFloatPadding * kFloatPadding;
}

inline int64_t float_input_bytes(int64_t columns) { return 4 * padded(columns); }

template <bool kRound>
void prepare_float(const float* x, int64_t columns, std::byte* prepared) {
  float* out = reinterpret_cast<float*>(prepared);
  int64_t k = 0;
  for (; k + kLanes <= columns; k += kLanes) {
    const Floats values = load(x + k);
    store(out + k,
          kRound ? reinterpret_cast<Floats>(__builtin_convertvector(to_bf16(values), Words) << 16) : values);
  }
  for (; k < columns; ++k) {
    uint32_t bits;
    std::memcpy(&bits, x + k, 4);
    if (kRound) {  // tensor::round_to_bf16
      const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
      const uint32_t quiet = (bits & 0xFFFF0000u) | 0x400000;
      bits = (bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded;
    }
    std::memcpy(out + k, &bits, 4);
  }
  std::memset(out + columns, 0, 4 * (padded(columns) - columns));
}

struct FloatTile {
  static constexpr int64_t kColumns = 512;
  static constexpr int64_t kBytes = 4 * kColumns;
  static constexpr int kTileRows = kLanes == 16 ? 4 : 2;  // what the registers of the tier hold
  static constexpr int64_t kFetchColumns = 256;           // every format's blocks divide it

  template <int kRows, int kOutputs>
  static void tile(const std::byte* x, int64_t x_stride, const std::byte* panel, int64_t live,
                   const PanelFetch& fetch, const TileSums& sums) {
    Floats acc[kRows][kOutputs];
    const float* input[kRows];
    for (int r = 0; r < kRows; ++r) {
      input[r] = reinterpret_cast<const float*>(x + r * x_stride);
      for (int i = 0; i < kOutputs; ++i) acc[r][i] = sums.start(r, i);
    }
    const float* weights = reinterpret_cast<const float*>(panel);
    const int64_t width = padded(live);
    for (int64_t k = 0; k < width; k += kLanes) {
      if (k % kFetchColumns == 0) fetch(k / kFetchColumns);
      Floats w[kOutputs];
      for (int i = 0; i < kOutputs; ++i) w[i] = load(weights + i * kColumns + k);
      for (int r = 0; r < kRows; ++r) {
        const Floats v = load(input[r] + k);
        for (int i = 0; i < kOutputs; ++i) acc[r][i] = multiply_add(w[i], v, acc[r][i]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kOutputs; ++i) store(sums.place(r, i), acc[r][i]);
    }
  }
};

// Decoder::decode(weight, n, k, count, out) expands W[n, k … k + count) to fp32.
template <class Decoder>
struct FloatPanel : NoTail {
  using Tile = FloatTile;
  static constexpr int64_t kColumns = FloatTile::kColumns;
  static constexpr int kOutputs = 8;

  static int64_t input_offset(int64_t k) { return 4 * k; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    float* out = reinterpret_cast<float*>(panel);
    Decoder::decode(weight, n, k, live, out);
    std::memset(out + live, 0, 4 * (padded(live) - live));
  }
};

template <class Decoder>
MatmulBody float_body(MatmulPrecision precision) {
  using Panel = FloatPanel<Decoder>;
  const bool round = precision == MatmulPrecision::bf16_inputs;
  return {float_input_bytes, round ? prepare_float<true> : prepare_float<false>, blocked_scratch_bytes<Panel>,
          multiply_blocked<Panel>};
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

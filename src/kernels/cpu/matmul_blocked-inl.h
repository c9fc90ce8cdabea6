// The loop nest of a product with several rows of x: rows of W are expanded a panel of columns at a time into
// scratch that stays in the first-level cache, and each panel is multiplied with a block of rows before the
// next is expanded. Vector sums live in scratch between panels, so no blocking changes the order of
// summation.
#pragma once

#include "kernels/cpu/matmul_driver.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int kTileOutputs = 4;            // rows of W per register tile
constexpr int64_t kBlockRows = 128;        // rows of x whose panels and sums stay in the second-level cache
constexpr int64_t kNarrowBytes = 1 << 18;  // x below this stays there as a whole

// The order in which lanes are summed, whatever the tile: halves are folded onto each other.
[[gnu::always_inline]] inline float sum_lanes(Floats v) {
#if defined(__AVX2__)
#if defined(__AVX512F__)
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
#else
  const __m256 eight = v;
#endif
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// Few rows of x: kStreams rows of W are multiplied at a time, each from its own part of [begin, end), so that
// a worker reads that many linear streams. They share the loads of x and keep more of memory's latency in
// flight than one: with bf16 weights one stream reached 70 % of a raw read, two 88 %, four 98 %. (Adjacent
// rows instead would be streams that skip, and lose a third of the bandwidth; software prefetch 1 to 4 KB
// ahead costs 5 %.)
template <int kCount>
struct Streams {
  static constexpr int value = kCount;
};
template <int kStreams, class Body>
[[gnu::always_inline]] inline void for_streams(int64_t begin, int64_t end, const Body& multiply) {
  const int64_t part = (end - begin) / kStreams;
  int64_t n[kStreams];
  for (int64_t i = 0; i < part; ++i) {
    for (int s = 0; s < kStreams; ++s) n[s] = begin + s * part + i;
    multiply(n, Streams<kStreams>());
  }
  for (n[0] = begin + kStreams * part; n[0] < end; ++n[0]) multiply(n, Streams<1>());
}

// A Panel type says how a number format is expanded and multiplied:
//   kColumns                columns of W per panel, a multiple of the format's block
//   kBytes                  of one expanded row of a panel, a multiple of 64
//   kTileRows               rows of x per register tile
//   input_offset(k)         bytes of prepared x before column k, a multiple of kColumns
//   expand(weight, n, k, live, panel)           W[n, k … k + live), padded with zeros
//   tile<rows, outputs>(x, x_stride, panel, live, sums)
//                           sums[r · kTileOutputs · kLanes + i · kLanes + lane] += …
//   finish_outputs(work, n, outputs, r, rows, sums)   what is added once per row of W
template <class Panel>
int64_t blocked_scratch_bytes(int64_t rows) {
  const int64_t block_rows = rows < kBlockRows ? rows : kBlockRows;
  return kTileOutputs * Panel::kBytes + block_rows * kManyRowsClaim * kLanes * 4;
}

template <class Panel, int kOutputs>
void multiply_panel(const std::byte* x, int64_t x_stride, int64_t rows, const std::byte* panel, int64_t live,
                    float* sums) {
  constexpr int64_t kSumsStride = kTileOutputs * kLanes;
  int64_t r = 0;
  for (; r + Panel::kTileRows <= rows; r += Panel::kTileRows) {
    Panel::template tile<Panel::kTileRows, kOutputs>(x + r * x_stride, x_stride, panel, live,
                                                     sums + r * kSumsStride);
  }
  for (; r < rows; ++r) {
    Panel::template tile<1, kOutputs>(x + r * x_stride, x_stride, panel, live, sums + r * kSumsStride);
  }
}

// Columns [begin, end) of the outputs for rows [first, first + rows). `sums` holds a block
// [rows][kTileOutputs] of vectors for each tile of outputs.
template <class Panel>
void multiply_block(const MatmulColumns& work, int64_t begin, int64_t end, int64_t first, int64_t rows,
                    std::byte* panel, float* sums) {
  const int64_t tile_sums = rows * kTileOutputs * kLanes;
  const int64_t columns = work.weight->columns;
  const std::byte* x = work.inputs + first * work.input_stride;
  const auto outputs_at = [&](int64_t n) {
    return static_cast<int>(end - n < kTileOutputs ? end - n : kTileOutputs);
  };

  std::memset(sums, 0, 4 * ((end - begin + kTileOutputs - 1) / kTileOutputs) * tile_sums);
  for (int64_t k = 0; k < columns; k += Panel::kColumns) {
    const int64_t live = columns - k < Panel::kColumns ? columns - k : Panel::kColumns;
    const std::byte* x_panel = x + Panel::input_offset(k);
    float* tile = sums;
    for (int64_t n = begin; n < end; n += kTileOutputs, tile += tile_sums) {
      const int outputs = outputs_at(n);
      for (int i = 0; i < outputs; ++i)
        Panel::expand(*work.weight, n + i, k, live, panel + i * Panel::kBytes);
      if (outputs == kTileOutputs) {
        multiply_panel<Panel, kTileOutputs>(x_panel, work.input_stride, rows, panel, live, tile);
        continue;
      }
      for (int i = 0; i < outputs; ++i) {
        multiply_panel<Panel, 1>(x_panel, work.input_stride, rows, panel + i * Panel::kBytes, live,
                                 tile + i * kLanes);
      }
    }
  }
  float* tile = sums;
  for (int64_t n = begin; n < end; n += kTileOutputs, tile += tile_sums) {
    const int outputs = outputs_at(n);
    Panel::finish_outputs(work, n, outputs, first, rows, tile);
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < outputs; ++i) {
        work.sums[(first + r) * work.sums_stride + n - work.begin + i] =
            sum_lanes(load(tile + (r * kTileOutputs + i) * kLanes));
      }
    }
  }
}

template <class Panel>
void multiply_blocked(const MatmulColumns& work) {
  std::byte* panel = work.scratch;
  float* sums = reinterpret_cast<float*>(panel + kTileOutputs * Panel::kBytes);
  // While all of x stays in cache, the rows of a tile are read to their end before the next tile's begin:
  // four linear streams.
  const bool narrow = work.rows * work.input_stride <= kNarrowBytes;
  const int64_t width = narrow ? kTileOutputs : kManyRowsClaim;
  for (int64_t n = work.begin; n < work.end; n += width) {
    const int64_t end = work.end - n < width ? work.end : n + width;
    for (int64_t first = 0; first < work.rows; first += kBlockRows) {
      const int64_t rows = work.rows - first < kBlockRows ? work.rows - first : kBlockRows;
      multiply_block<Panel>(work, n, end, first, rows, panel, sums);
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

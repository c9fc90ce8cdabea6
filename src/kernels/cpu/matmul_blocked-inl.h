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

#if defined(__AVX512F__)
// sum_lanes of four vectors.
[[gnu::always_inline]] inline __m128 sum_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
  __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  four = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4E));
  four = _mm512_add_ps(four, _mm512_permute_ps(four, 0xB1));
  return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, four));
}
#endif

// sum_lanes of kTileOutputs vectors.
[[gnu::always_inline]] inline void sum_tile_lanes(const float* vectors, float* out) {
#if defined(__AVX512F__)
  _mm_storeu_ps(out, sum_lanes(_mm512_load_ps(vectors), _mm512_load_ps(vectors + 16),
                               _mm512_load_ps(vectors + 32), _mm512_load_ps(vectors + 48)));
#else
  for (int i = 0; i < kTileOutputs; ++i) out[i] = sum_lanes(load(vectors + i * kLanes));
#endif
}

// A count that is a type, for generic lambdas.
template <int kCount>
struct Count {
  static constexpr int value = kCount;
};

// Calls body(first, count) for groups of kMost of the rows from `first` on, and for what is left: groups of
// 4, 3, 2 or 1.
template <int kMost, class Body>
[[gnu::always_inline]] inline void for_row_groups(int64_t rows, const Body& body, int64_t first = 0) {
  for (; first + kMost <= rows; first += kMost) body(first, Count<kMost>());
  if constexpr (kMost > 1) {
    if (first < rows) for_row_groups<(kMost > 4 ? 4 : kMost - 1)>(rows, body, first);
  }
}

// Few rows of x: codes go from memory to the products through registers. kStreams rows of W are multiplied at
// a time, each from its own part of the columns, so that a worker reads that many linear streams. They share
// the loads of x and keep more of memory's latency in flight than one: with bf16 weights one stream reached
// 70 % of a raw read, two 88 %, four 98 %. (Adjacent rows instead would be streams that skip, and lose a
// third of the bandwidth.) Calls multiply(n, streams,
// first row, rows), streams and rows being Counts.
//
// With more than kMostRows rows, a part of W that stays in the second-level cache is multiplied with one
// group of rows after the other, each of which stays in the first-level cache meanwhile. (Group after group
// for each row of W: 14 GB/s instead of 18 with eight rows of 4608 columns.)
constexpr int64_t kAgainBytes = 128 << 10;

template <int kStreams, int kMostRows, class Body>
[[gnu::always_inline]] inline void for_streams(const MatmulColumns& work, const Body& multiply) {
  const int64_t part = (work.end - work.begin) / kStreams;
  const int64_t again = kAgainBytes / (kStreams * work.weight->format.row_bytes(work.weight->columns)) + 1;
  const int64_t block = work.rows > kMostRows && again < part ? again : part;
  for (int64_t begin = 0; begin < part; begin += block) {
    const int64_t end = part - begin < block ? part : begin + block;
    for_row_groups<kMostRows>(work.rows, [&](int64_t r, auto rows) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t n[kStreams];
        for (int s = 0; s < kStreams; ++s) n[s] = work.begin + s * part + i;
        multiply(n, Count<kStreams>(), r, rows);
      }
    });
  }
  for (int64_t n = work.begin + kStreams * part; n < work.end; ++n) {
    for_row_groups<kMostRows>(work.rows, [&](int64_t r, auto rows) { multiply(&n, Count<1>(), r, rows); });
  }
}

// The rows of W whose next panel a tile fetches, a step's bytes per step that it multiplies: the products
// themselves touch no memory. (All lines of a panel at once, before its products: half the gain.)
struct PanelFetch {
  const std::byte* from = nullptr;  // of the first row
  int64_t row_bytes = 0, step_bytes = 0;
  int outputs = 0;  // 0: nothing to fetch

  [[gnu::always_inline]] void operator()(int64_t step) const {
    for (int i = 0; i < outputs; ++i) {
      const std::byte* line = from + i * row_bytes + step * step_bytes;
      for (int64_t offset = 0; offset < step_bytes; offset += 64) __builtin_prefetch(line + offset);
    }
  }
};

// A Tile type says how an expanded panel is multiplied:
//   kBytes                  of one expanded row of a panel, a multiple of 64
//   kTileRows               rows of x per register tile
//   kFetchColumns           columns per call of a tile's PanelFetch
//   tile<rows, outputs>(x, x_stride, panel, live, fetch, sums)
//                           sums[r · kTileOutputs · kLanes + i · kLanes + lane] += …
// A Panel type says how a number format becomes one:
//   Tile
//   kColumns                columns of W per panel, a multiple of the format's block
//   input_offset(k)         bytes of prepared x before column k, a multiple of kColumns
//   expand(weight, n, k, live, panel)           W[n, k … k + live), padded with zeros
//   finish_outputs(work, n, outputs, r, rows, sums)   what is added once per row of W
template <class Panel>
int64_t blocked_scratch_bytes(int64_t rows) {
  const int64_t block_rows = rows < kBlockRows ? rows : kBlockRows;
  return kTileOutputs * Panel::Tile::kBytes + block_rows * kManyRowsClaim * kLanes * 4;
}

template <class Tile, int kOutputs>
void multiply_panel(const std::byte* x, int64_t x_stride, int64_t rows, const std::byte* panel, int64_t live,
                    PanelFetch fetch, float* sums) {
  constexpr int64_t kSumsStride = kTileOutputs * kLanes;
  int64_t r = 0;
  for (; r + Tile::kTileRows <= rows; r += Tile::kTileRows) {
    Tile::template tile<Tile::kTileRows, kOutputs>(x + r * x_stride, x_stride, panel, live, fetch,
                                                   sums + r * kSumsStride);
    fetch = {};
  }
  for (; r < rows; ++r) {
    Tile::template tile<1, kOutputs>(x + r * x_stride, x_stride, panel, live, fetch, sums + r * kSumsStride);
    fetch = {};
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
  const int64_t row_bytes = work.weight->format.row_bytes(columns);
  const int64_t fetch_bytes = work.weight->format.row_bytes(Panel::Tile::kFetchColumns);
  const auto fetch = [&](int64_t n, int64_t k) -> PanelFetch {
    const int64_t outputs = work.end - n < kTileOutputs ? work.end - n : kTileOutputs;
    return {work.weight->data + n * row_bytes + k / Panel::Tile::kFetchColumns * fetch_bytes, row_bytes,
            fetch_bytes, static_cast<int>(outputs)};
  };
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
      for (int i = 0; i < outputs; ++i) {
        Panel::expand(*work.weight, n + i, k, live, panel + i * Panel::Tile::kBytes);
      }
      const PanelFetch next = n + kTileOutputs < end          ? fetch(n + kTileOutputs, k)
                              : k + Panel::kColumns < columns ? fetch(begin, k + Panel::kColumns)
                                                              : fetch(end, 0);
      if (outputs == kTileOutputs) {
        multiply_panel<typename Panel::Tile, kTileOutputs>(x_panel, work.input_stride, rows, panel, live,
                                                           next, tile);
        continue;
      }
      for (int i = 0; i < outputs; ++i) {
        multiply_panel<typename Panel::Tile, 1>(x_panel, work.input_stride, rows,
                                                panel + i * Panel::Tile::kBytes, live,
                                                i == 0 ? next : PanelFetch{}, tile + i * kLanes);
      }
    }
  }
  float* tile = sums;
  for (int64_t n = begin; n < end; n += kTileOutputs, tile += tile_sums) {
    const int outputs = outputs_at(n);
    Panel::finish_outputs(work, n, outputs, first, rows, tile);
    for (int64_t r = 0; r < rows; ++r) {
      const float* vectors = tile + r * kTileOutputs * kLanes;
      float* out = work.sums + (first + r) * work.sums_stride + n - work.begin;
      if (outputs == kTileOutputs) {
        sum_tile_lanes(vectors, out);
        continue;
      }
      for (int i = 0; i < outputs; ++i) out[i] = sum_lanes(load(vectors + i * kLanes));
    }
  }
}

template <class Panel>
void multiply_blocked(const MatmulColumns& work) {
  std::byte* panel = work.scratch;
  float* sums = reinterpret_cast<float*>(panel + kTileOutputs * Panel::Tile::kBytes);
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

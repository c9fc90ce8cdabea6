// The loop nest of a product with several rows of x: rows of W are expanded a panel of columns at a time into
// scratch that stays in the first-level cache, and each panel is multiplied with a block of rows before the
// next is expanded. Vector sums live in scratch between panels, so no blocking changes the order of
// summation.
//
// What bounds it (Zen 5, two 512-bit products per cycle): not memory, but what is issued beside the products.
// GCC 12 reads operands from memory again for every product that uses them, and copies accumulators, when it
// is short of registers: tiles hold operands with in_register() and multiply by add_bf16(), and have 12
// accumulators (3 × 4), which leaves room for the sums beside them.
//
// With 512 rows on both cores (q4g64) products reach 65 % of the peak at K 1536 and 69 % at K 4096; a panel
// alone 82 %. The rest is finishing sums (10 %), expanding, preparing x and copying outputs (3 % each). Tried
// and lost, speed against this one's (measured with 16-bit integer products, whose loops are the same):
// outputs finished tile by tile 0.90, or every 12 rows 0.86; panels of 2048 columns of 4 rows 0.89, of 1024
// columns of 16 rows 0.94; fetching the next tile of x 1.02 from memory and 0.95 from cache; blocks of x with
// all their columns and last panels of up to 1536 columns 0.90 in a model; claims of 32 columns instead of 64
// 0.96; tiles of 4 × 4, 0.94 and 6 × 4, 0.89 of 3 × 4 from cache.
#pragma once

#include "kernels/cpu/matmul_driver.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int kTileOutputs = 4;            // rows of W per register tile
constexpr int64_t kMostBlockRows = 132;    // rows of x whose panels and sums stay in the second-level cache
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
[[gnu::always_inline]] inline void sum_tile_lanes(const Floats vectors[kTileOutputs], float* out) {
#if defined(__AVX512F__)
  _mm_storeu_ps(out, sum_lanes(vectors[0], vectors[1], vectors[2], vectors[3]));
#else
  for (int i = 0; i < kTileOutputs; ++i) out[i] = sum_lanes(vectors[i]);
#endif
}

#if defined(__AVX512F__)
// Keeps a value in a register that a compiler would rather read from memory for every use.
[[gnu::always_inline]] inline __m512i in_register(__m512i v) {
  asm("" : "+v"(v));
  return v;
}

// Products of bf16, added to a tile's accumulators.
[[gnu::always_inline]] inline void add_bf16(__m512& sum, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
#endif

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

  // Of the first kTileOutputs rows.
  [[gnu::always_inline]] void operator()(int64_t step) const {
    for (int i = 0; i < (outputs < kTileOutputs ? outputs : kTileOutputs); ++i) {
      const std::byte* line = from + i * row_bytes + step * step_bytes;
      for (int64_t offset = 0; offset < step_bytes; offset += 64) __builtin_prefetch(line + offset);
    }
  }
  PanelFetch after(int count) const {
    return count < outputs ? PanelFetch{from + count * row_bytes, row_bytes, step_bytes, outputs - count}
                           : PanelFetch{};
  }
};

// A tile's vector sums: [rows][kTileOutputs]. In the first panel they start from zeros.
struct TileSums {
  const float* from;
  int64_t from_stride;  // elements between rows; 0: all start from the same
  float* to;

  [[gnu::always_inline]] Floats start(int r, int i) const {
    return load(from + r * from_stride + i * kLanes);
  }
  [[gnu::always_inline]] float* place(int r, int i) const { return to + (r * kTileOutputs + i) * kLanes; }
  TileSums at(int64_t r, int i) const {
    return {from + r * from_stride + i * kLanes, from_stride, to + (r * kTileOutputs + i) * kLanes};
  }
};

// A Tile type says how an expanded panel is multiplied:
//   kBytes                  of one expanded row of a panel, a multiple of 64
//   kTileRows               rows of x per register tile
//   kFetchColumns           columns per call of a tile's PanelFetch
//   tile<rows, outputs>(x, x_stride, panel, live, fetch, sums)     place(r, i) = start(r, i) + …
// A Panel type says how a number format becomes one:
//   Tile
//   kColumns                columns of W per panel, a multiple of the format's block
//   kOutputs                rows of W per panel, a multiple of kTileOutputs
//   input_offset(k)         bytes of prepared x before column k, a multiple of kColumns
//   expand(weight, n, k, live, panel)           W[n, k … k + live), padded with zeros
//   tail_floats(columns)    floats per row of W of what is added once per row, a multiple of 16
//   expand_tail(weight, n, tail)                those floats
//   tail_offset(columns)                        bytes of prepared x before what a row's are multiplied with
//   add_tail(tails, floats, x, sums)            adds them to the kTileOutputs sums of a row of x
template <class Panel>
struct BlockedScratch {
  int64_t tails = 0, sums = 0, bytes = 0;

  BlockedScratch(int64_t rows, int64_t columns) {
    const int64_t block_rows = rows < kMostBlockRows ? rows : kMostBlockRows;
    tails = Panel::kOutputs * Panel::Tile::kBytes;
    sums = tails + Panel::kOutputs * Panel::tail_floats(columns) * 4;
    bytes = sums + block_rows * kManyRowsClaim * kLanes * 4;
  }
};
template <class Panel>
int64_t blocked_scratch_bytes(int64_t rows, int64_t columns) {
  return BlockedScratch<Panel>(rows, columns).bytes;
}

// For panels with nothing to add.
struct NoTail {
  static int64_t tail_floats(int64_t) { return 0; }
  static void expand_tail(const tensor::MatrixView&, int64_t, float*) {}
  static int64_t tail_offset(int64_t) { return 0; }
  static void add_tail(const float*, int64_t, const std::byte*, Floats*) {}
};

// Up to kTileRows rows of x times kOutputs rows of a panel.
template <class Tile, int kOutputs>
[[gnu::always_inline]] inline void multiply_tile(const std::byte* x, int64_t x_stride, int64_t rows,
                                                 const std::byte* panel, int64_t live,
                                                 const PanelFetch& fetch, const TileSums& sums) {
  for_row_groups<Tile::kTileRows>(rows, [&](int64_t, auto count) {
    Tile::template tile<count.value, kOutputs>(x, x_stride, panel, live, fetch, sums);
  });
}

// A panel of `outputs` rows of W. Each tile of x is multiplied with all of it while it is in the first-level
// cache. `sums` is for the first tile of outputs: a block [rows][kTileOutputs] for each of them. (Written
// with state in an object or a lambda, the loop costs a tenth: GCC 12 then keeps it in memory.)
template <class Tile>
[[gnu::noinline]] void multiply_panel(const std::byte* x, int64_t x_stride, int64_t rows,
                                      const std::byte* panel, int outputs, int64_t live, PanelFetch fetch,
                                      const TileSums& sums) {
  const int64_t tile_sums = rows * kTileOutputs * kLanes;
  for (int64_t r = 0; r < rows; r += Tile::kTileRows) {
    const int64_t count = rows - r < Tile::kTileRows ? rows - r : Tile::kTileRows;
    const std::byte* from = x + r * x_stride;
    for (int i = 0; i < outputs; i += kTileOutputs) {
      TileSums tile = sums.at(r, 0);
      if (sums.from_stride != 0) tile.from += i / kTileOutputs * tile_sums;
      tile.to += i / kTileOutputs * tile_sums;
      const std::byte* weights = panel + i * Tile::kBytes;
      if (outputs - i >= kTileOutputs) {
        multiply_tile<Tile, kTileOutputs>(from, x_stride, count, weights, live, fetch, tile);
      } else {
        for (int j = 0; j < outputs - i; ++j) {
          multiply_tile<Tile, 1>(from, x_stride, count, weights + j * Tile::kBytes, live,
                                 j == 0 ? fetch : PanelFetch{}, tile.at(0, j));
        }
      }
      fetch = fetch.after(kTileOutputs);
    }
  }
}

// Columns [begin, end) of the outputs for rows [first, first + rows).
template <class Panel>
class BlockProduct {
 public:
  using Tile = typename Panel::Tile;

  BlockProduct(const MatmulColumns& work, int64_t begin, int64_t end, int64_t first, int64_t rows)
      : work_(work),
        begin_(begin),
        end_(end),
        first_(first),
        rows_(rows),
        columns_(work.weight->columns),
        tail_floats_(Panel::tail_floats(columns_)),
        x_(work.inputs + first * work.input_stride) {
    const BlockedScratch<Panel> places(work.rows, columns_);
    panel_ = work.scratch;
    tails_ = reinterpret_cast<float*>(work.scratch + places.tails);
    sums_ = reinterpret_cast<float*>(work.scratch + places.sums);
  }

  void run() {
    for (int64_t k = 0; k < columns_; k += Panel::kColumns) {
      const int64_t live = columns_ - k < Panel::kColumns ? columns_ - k : Panel::kColumns;
      const bool is_last = k + live == columns_;
      for (int64_t n = begin_; n < end_; n += Panel::kOutputs) {
        const int outputs = panel_outputs(n, end_);
        for (int i = 0; i < outputs; ++i) {
          Panel::expand(*work_.weight, n + i, k, live, panel_ + i * Tile::kBytes);
          if (is_last) Panel::expand_tail(*work_.weight, n + i, tails_ + i * tail_floats_);
        }
        multiply_panel<Tile>(x_ + Panel::input_offset(k), work_.input_stride, rows_, panel_, outputs, live,
                             fetch_after(n, k), panel_sums(n, k == 0));
        for (int i = 0; is_last && i < outputs; i += kTileOutputs) {
          finish_outputs(n + i, outputs - i < kTileOutputs ? outputs - i : kTileOutputs,
                         tails_ + i * tail_floats_);
        }
      }
    }
  }

 private:
  static int panel_outputs(int64_t n, int64_t limit) {
    return static_cast<int>(limit - n < Panel::kOutputs ? limit - n : Panel::kOutputs);
  }

  PanelFetch fetch_after(int64_t n, int64_t k) const {
    if (n + Panel::kOutputs < end_) {
      n += Panel::kOutputs;
    } else if (k + Panel::kColumns < columns_) {
      n = begin_, k += Panel::kColumns;
    } else {
      n = end_, k = 0;
    }
    const int64_t row_bytes = work_.weight->format.row_bytes(columns_);
    const int64_t step_bytes = work_.weight->format.row_bytes(Tile::kFetchColumns);
    return {work_.weight->data + n * row_bytes + k / Tile::kFetchColumns * step_bytes, row_bytes, step_bytes,
            n < work_.end ? panel_outputs(n, work_.end) : 0};
  }

  float* sums_at(int64_t n) const { return sums_ + (n - begin_) * rows_ * kLanes; }

  TileSums panel_sums(int64_t n, bool is_first) const {
    alignas(64) static constexpr float kZeros[kTileOutputs * kLanes] = {};
    float* place = sums_at(n);
    return is_first ? TileSums{kZeros, 0, place} : TileSums{place, kTileOutputs * kLanes, place};
  }

  // Up to kTileOutputs outputs from their sums.
  void finish_outputs(int64_t n, int outputs, const float* tails) {
    const float* place = sums_at(n);
    float* out = work_.sums + first_ * work_.sums_stride + n - work_.begin;
    const int64_t rows = rows_, floats = tail_floats_, x_stride = work_.input_stride;
    const int64_t out_stride = work_.sums_stride;
    const std::byte* x = x_ + Panel::tail_offset(columns_);
    for (int64_t r = 0; r < rows; ++r, place += kTileOutputs * kLanes, x += x_stride, out += out_stride) {
      Floats lanes[kTileOutputs];
      for (int i = 0; i < kTileOutputs; ++i) lanes[i] = load(place + i * kLanes);
      Panel::add_tail(tails, floats, x, lanes);
      if (outputs == kTileOutputs) {
        sum_tile_lanes(lanes, out);
      } else {
        for (int i = 0; i < outputs; ++i) out[i] = sum_lanes(lanes[i]);
      }
    }
  }

  const MatmulColumns& work_;
  int64_t begin_, end_, first_, rows_, columns_, tail_floats_;
  const std::byte* x_;
  std::byte* panel_;
  float *tails_, *sums_;  // sums_: a block [rows][kTileOutputs] for each kTileOutputs outputs
};

// Rows per block, a multiple of the tile's where there are several: as even as that allows.
template <class Tile>
int64_t block_rows(int64_t rows) {
  const int64_t blocks = (rows + kMostBlockRows - 1) / kMostBlockRows;
  const int64_t even = (rows + blocks - 1) / blocks;
  return blocks == 1 ? rows : (even + Tile::kTileRows - 1) / Tile::kTileRows * Tile::kTileRows;
}

template <class Panel>
void multiply_blocked(const MatmulColumns& work) {
  // While all of x stays in cache, the rows of a panel are read to their end before the next panel's begin:
  // a few linear streams.
  const bool narrow = work.rows * work.input_stride <= kNarrowBytes;
  const int64_t width = narrow ? Panel::kOutputs : kManyRowsClaim;
  const int64_t step = block_rows<typename Panel::Tile>(work.rows);
  for (int64_t n = work.begin; n < work.end; n += width) {
    const int64_t end = work.end - n < width ? work.end : n + width;
    for (int64_t first = 0; first < work.rows; first += step) {
      const int64_t rows = work.rows - first < step ? work.rows - first : step;
      BlockProduct<Panel>(work, n, end, first, rows).run();
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

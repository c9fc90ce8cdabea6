// What every tier's matrix product shares: preparing x, claiming columns, epilogues. Compiled once, for the
// baseline; the arithmetic is behind MatmulTier, which a tier's file fills.
//
// A product runs in two phases. First each live row of x is (normed and) laid out as its bodies want to read
// it. Few rows are prepared by every worker for itself; more rows are divided among the workers, who then
// meet at a barrier. Then the columns of all segments form one claim space: a worker takes a run of columns,
// multiplies, and finishes them (bias, residual, gated activation) while they are in its cache.
#pragma once

#include "kernels/op/kernel_table.h"

namespace rafter::kernels {

// Up to this many rows, every worker prepares x for itself: no barrier.
inline constexpr int64_t kPrivateRows = 4;

// Up to this many rows a claim is a linear stream of weights: long at first, shorter as the end nears
// (guided), so that workers finish together.
inline constexpr int64_t kFewRows = 16;
inline constexpr int64_t kLongestClaim = 1024, kShortestClaim = 16;

// Columns per claim with more rows: for each claim all of x comes from a cache that is not the worker's own.
inline constexpr int64_t kManyRowsClaim = 64, kShortestManyRowsClaim = 16;

// Columns that no claim exceeds, those times rows for the most of up to `rows` rows, and the columns of the
// next claim when `done` of `outputs` are taken.
inline int64_t longest_claim(int64_t rows) {
  return rows > kFewRows ? kManyRowsClaim : rows > kPrivateRows ? kLongestClaim / 2 : kLongestClaim;
}
int64_t most_claimed(int64_t rows);
int64_t claim_size(int64_t rows, int64_t outputs, int64_t done, int workers);

// Columns [begin, end) of one matrix; no weight: none.
struct MatmulRun {
  const tensor::MatrixView* weight = nullptr;
  int64_t begin = 0, end = 0;
};

// What a worker multiplies after a run, as far as can be told near that run's end: for asking memory in time.
class MatmulForesight {
 public:
  virtual MatmulRun next() const = 0;

 protected:
  ~MatmulForesight() = default;
};

// A run of output columns for a body: sums[r · sums_stride + n − begin] = Σ_k W[n, k] · x[r, k].
struct MatmulColumns {
  const tensor::MatrixView* weight = nullptr;
  int64_t begin = 0, end = 0;  // n
  int64_t rows = 0;
  const std::byte* inputs = nullptr;  // prepared rows, 64-byte aligned
  int64_t input_stride = 0;           // bytes
  std::byte* scratch = nullptr;       // MatmulBody::scratch_bytes, 64-byte aligned
  float* sums = nullptr;
  int64_t sums_stride = 0;  // elements
  const MatmulForesight* foresight = nullptr;
};

// The arithmetic of one number format in one tier. Segments whose bodies have the same `prepare` share x.
struct MatmulBody {
  // Bytes of one prepared row of x, a multiple of 64.
  int64_t (*input_bytes)(int64_t columns);
  // Lays out x[columns]; rounds it as the precision says.
  void (*prepare)(const float* x, int64_t columns, std::byte* prepared);
  int64_t (*scratch_bytes)(int64_t rows, int64_t columns);
  void (*multiply)(const MatmulColumns&);
  // Bytes per column for rows of W that are unpacked, in front of the scratch; null: none are.
  int64_t (*unpacked_rows)(int64_t rows) = nullptr;
};

// Scratch for calls with up to `rows` rows of `columns` inputs, a multiple of 64.
int64_t body_scratch_bytes(const MatmulBody&, int64_t rows, int64_t columns);

struct MatmulTier {
  MatmulBody (*choose)(const tensor::NumberFormat&, MatmulPrecision);
  void (*norm_row)(const float* x, const float* weight, int64_t width, float epsilon, float* out);
  void (*swiglu_row)(const float* gate, const float* up, int64_t width, float* out);
  void (*geglu_row)(const float* gate, const float* up, int64_t width, float* out);
};

void run_matmul(const MatmulTier&, const MatmulArgs&, Worker&);
KernelTable::Scratch matmul_scratch(const MatmulTier&, const MatmulArgs&, int64_t capacity);

// "qmv_q4g64" (few rows), "qmm_q4g64" (more), "mv_bf16", "mm_q4_0", …
const char* matmul_kernel_name(const tensor::NumberFormat&, int64_t rows);

// Every format that tensor::decode_row reads.
bool supports_matmul_format(const tensor::NumberFormat&);

}  // namespace rafter::kernels

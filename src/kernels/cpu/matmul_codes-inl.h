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

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kVectorBytes = 64;
constexpr int64_t kStep = 256;      // columns
constexpr int kCodeVectors = 4;     // of 64 codes per step
constexpr int64_t kBlockSteps = 4;  // steps that share a lane's scale of x
constexpr int64_t kBlockColumns = kStep * kBlockSteps;

// Where the biases of a format are added.
enum class Biases { none, per_row, per_step };

struct CodeStep {
  __m512i codes[kCodeVectors];
  __m512 scale;  // of each lane's group
  __m512 bias;   // Biases::per_step only
};

// How a format orders the columns of a step, and what it wants to know of x beside the values. An Input type
// has
//   column(v, i)       the column that byte i of vector v holds; lane l is bytes 4l … 4l + 3
//   kGroup             columns per group
//   lane_group(lane)   the group that all columns of a lane lie in
//   kZero              what is subtracted from each code
//   kBiases
//
// Prepared row, in blocks of four steps: the lanes' scales of x, then per step kDigits·4 vectors of digits
// (most significant first) and the extras: with kZero, −kZero times a lane's sum of integers (for three
// digits two vectors: of the upper two digits, of the lowest); with Biases::per_step a lane's sum of x. With
// Biases::per_row a float per group follows the last block, the sum of x over the group, padded to whole
// vectors. All sums are of x as its integers give it.
template <class Input, int kDigits>
struct InputLayout {
  static constexpr int64_t kExtras =
      (Input::kZero != 0 ? kDigits - 1 : 0) + (Input::kBiases == Biases::per_step ? 1 : 0);
  static constexpr int64_t kStepBytes = (kDigits * kCodeVectors + kExtras) * kVectorBytes;
  static constexpr int64_t kBlockBytes = kVectorBytes + kBlockSteps * kStepBytes;
  static constexpr int64_t kOffsets = kDigits * kCodeVectors * kVectorBytes;  // of the first extra in a step
  static constexpr int64_t kLaneSums = kStepBytes - kVectorBytes;             // Biases::per_step

  static int64_t blocks(int64_t columns) { return (columns + kBlockColumns - 1) / kBlockColumns; }
  static int64_t sums_offset(int64_t columns) { return blocks(columns) * kBlockBytes; }
  static int64_t bytes(int64_t columns) {
    int64_t sums = 0;
    if constexpr (Input::kBiases == Biases::per_row) {
      sums = (columns / Input::kGroup + kLanes - 1) / kLanes * kVectorBytes;
    }
    return sums_offset(columns) + sums;
  }
};

// ---- preparing x

// Input::column as a table: the column of each element, vector after vector.
template <class Input>
struct StepOrder {
  alignas(64) uint16_t column[kStep];
  constexpr StepOrder() : column() {
    for (int i = 0; i < kStep; ++i) column[i] = static_cast<uint16_t>(Input::column(i / 64, i % 64));
  }
};
template <class Input>
constexpr StepOrder<Input> kStepOrder{};

// Words order[32 i …] of 256 words, as vector i.
[[gnu::always_inline]] inline __m512i pick_words(const __m512i words[8], const uint16_t* order) {
  const __m512i index = _mm512_load_si512(order);
  const __m512i quarter = _mm512_srli_epi16(index, 6);  // 64 words: two vectors
  __m512i picked = _mm512_permutex2var_epi16(words[0], index, words[1]);
  for (int q = 1; q < 4; ++q) {
    const __mmask32 here = _mm512_cmpeq_epi16_mask(quarter, _mm512_set1_epi16(static_cast<short>(q)));
    picked =
        _mm512_mask_mov_epi16(picked, here, _mm512_permutex2var_epi16(words[2 * q], index, words[2 * q + 1]));
  }
  return picked;
}

// The lower or upper half of 32 words, as dwords.
template <int kHalf>
[[gnu::always_inline]] inline __m512i widen(__m512i words) {
  return _mm512_cvtepu16_epi32(kHalf == 0 ? _mm512_castsi512_si256(words)
                                          : _mm512_extracti64x4_epi64(words, 1));
}

// 256 values in natural order (`live` of them, then zeros) to the format's order; rounded to bf16 unless
// `kExact`. The upper and lower words of the values are permuted apart.
template <class Input, bool kExact>
void permute_step(const float* x, int64_t live, float* out) {
  alignas(64) float tail[kStep];
  if (live < kStep) {
    std::memset(tail, 0, sizeof(tail));
    std::memcpy(tail, x, 4 * live);
    x = tail;
  }
  __m512i upper[8], lower[8];
  for (int v = 0; v < 8; ++v) {
    const __m512 x0 = _mm512_loadu_ps(x + 32 * v), x1 = _mm512_loadu_ps(x + 32 * v + 16);
    if constexpr (kExact) {
      const __m512i b0 = _mm512_castps_si512(x0), b1 = _mm512_castps_si512(x1);
      const __m256i u0 = _mm512_cvtepi32_epi16(_mm512_srli_epi32(b0, 16));
      const __m256i u1 = _mm512_cvtepi32_epi16(_mm512_srli_epi32(b1, 16));
      upper[v] = _mm512_inserti64x4(_mm512_castsi256_si512(u0), u1, 1);
      lower[v] =
          _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(b0)), _mm512_cvtepi32_epi16(b1), 1);
    } else {
      upper[v] = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x1, x0));
    }
  }
  for (int v = 0; v < 8; ++v) {
    const uint16_t* order = kStepOrder<Input>.column + 32 * v;
    const __m512i words = pick_words(upper, order);
    __m512i first = _mm512_slli_epi32(widen<0>(words), 16), second = _mm512_slli_epi32(widen<1>(words), 16);
    if constexpr (kExact) {
      const __m512i low_words = pick_words(lower, order);
      first = _mm512_or_si512(first, widen<0>(low_words));
      second = _mm512_or_si512(second, widen<1>(low_words));
    }
    _mm512_store_si512(out + 32 * v, first);
    _mm512_store_si512(out + 32 * v + 16, second);
  }
}

// Each lane's largest magnitude in a block of ordered values, as the bits of an fp32.
inline void lane_maxima(const float* ordered, int64_t steps, uint32_t maxima[kLanes]) {
  __m512i largest[4] = {};
  for (int64_t i = 0; i < steps * kStep; i += 64) {
    for (int q = 0; q < 4; ++q) {
      const __m512i bits = _mm512_load_si512(ordered + i + 16 * q);
      largest[q] = _mm512_max_epu32(largest[q], _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)));
    }
  }
  alignas(64) uint32_t elements[64];
  for (int q = 0; q < 4; ++q) _mm512_store_si512(elements + 16 * q, largest[q]);
  for (int lane = 0; lane < kLanes; ++lane) {
    maxima[lane] = 0;
    for (int i = 4 * lane; i < 4 * lane + 4; ++i) {
      if (elements[i] > maxima[lane]) maxima[lane] = elements[i];
    }
  }
}

// Per lane the power of two that one unit of its integers stands for, and its inverse. A lane with a value
// that is not finite gets NaN, and so do all outputs.
template <int kDigits>
inline void lane_units(const uint32_t maxima[kLanes], float units[kLanes], float inverses[kLanes]) {
  // The largest magnitude lies below 2^15 (two digits: h·256 + l reaches 32639, which the bf16 255·2^7 passes
  // by one) or 2^22 units.
  constexpr int kBits = kDigits == 2 ? 15 : 22;
  for (int lane = 0; lane < kLanes; ++lane) {
    int exponent = static_cast<int>(maxima[lane] >> 23) - 127;
    if (exponent < kBits - 127) exponent = kBits - 127;  // keeps units normal
    const auto power = [](int e) { return __builtin_bit_cast(float, static_cast<uint32_t>(e + 127) << 23); };
    units[lane] = power(exponent - kBits + 1);
    inverses[lane] = power(kBits - 1 - exponent);
    if (maxima[lane] >= 0x7F800000) units[lane] = __builtin_nanf("");
  }
}

// Splits an integer's lowest digit off: a signed byte, and the rest in units of 256.
[[gnu::always_inline]] inline __m512i split_digit(__m512i& value) {
  const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(value, _mm512_set1_epi32(128)), 8);
  const __m512i digit = _mm512_sub_epi32(value, _mm512_slli_epi32(upper, 8));
  value = upper;
  return digit;
}

template <int kDigits>
void write_digits(const float* ordered, const float inverses[kLanes], std::byte* prepared) {
  for (int q = 0; q < 4; ++q) {  // elements 16q … 16q + 15 of each vector: lanes 4q … 4q + 3
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512 factor =
        _mm512_permutexvar_ps(_mm512_add_epi32(lanes, _mm512_set1_epi32(4 * q)), _mm512_loadu_ps(inverses));
    for (int v = 0; v < kCodeVectors; ++v) {
      __m512i value = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(ordered + 64 * v + 16 * q), factor));
      if (kDigits == 2) value = _mm512_min_epi32(value, _mm512_set1_epi32(127 * 256 + 127));
      for (int d = kDigits - 1; d >= 0; --d) {
        const __m512i digit = d > 0 ? split_digit(value) : value;
        _mm_store_si128(reinterpret_cast<__m128i*>(prepared + (d * kCodeVectors + v) * kVectorBytes + 16 * q),
                        _mm512_cvtepi32_epi8(digit));
      }
    }
  }
}

// A lane's sum of one digit of a step.
[[gnu::always_inline]] inline __m512i digit_sum(const std::byte* digits) {
  __m512i sum = _mm512_setzero_si512();
  for (int v = 0; v < kCodeVectors; ++v) {
    sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), _mm512_load_si512(digits + v * kVectorBytes));
  }
  return sum;
}

// Writes a step's extras and adds its lanes' sums of x to those of their groups.
template <class Input, int kDigits>
void write_sums(std::byte* prepared, const float units[kLanes], int64_t first_group, int64_t groups,
                float* group_sums) {
  using Layout = InputLayout<Input, kDigits>;
  constexpr int64_t kDigitBytes = kCodeVectors * kVectorBytes;
  const __m512i upper =
      _mm512_add_epi32(_mm512_slli_epi32(digit_sum(prepared), 8), digit_sum(prepared + kDigitBytes));
  const __m512i lowest = kDigits == 3 ? digit_sum(prepared + 2 * kDigitBytes) : _mm512_setzero_si512();
  if constexpr (Input::kZero != 0) {
    const __m512i zero = _mm512_set1_epi32(-Input::kZero);
    _mm512_store_si512(prepared + Layout::kOffsets, _mm512_mullo_epi32(upper, zero));
    if (kDigits == 3) {
      _mm512_store_si512(prepared + Layout::kOffsets + kVectorBytes, _mm512_mullo_epi32(lowest, zero));
    }
  }
  if constexpr (Input::kBiases == Biases::none) return;
  __m512 sum = _mm512_cvtepi32_ps(upper);
  if (kDigits == 3) sum = _mm512_fmadd_ps(sum, _mm512_set1_ps(256), _mm512_cvtepi32_ps(lowest));
  sum = _mm512_mul_ps(sum, _mm512_loadu_ps(units));
  if constexpr (Input::kBiases == Biases::per_step) _mm512_store_ps(prepared + Layout::kLaneSums, sum);
  if constexpr (Input::kBiases == Biases::per_row) {
    float lanes[kLanes];
    _mm512_storeu_ps(lanes, sum);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t group = first_group + Input::lane_group(lane);
      if (group < groups) group_sums[group] += lanes[lane];
    }
  }
}

template <class Input, int kDigits>
void prepare_codes(const float* x, int64_t columns, std::byte* prepared) {
  using Layout = InputLayout<Input, kDigits>;
  float* sums = reinterpret_cast<float*>(prepared + Layout::sums_offset(columns));
  std::memset(sums, 0, Layout::bytes(columns) - Layout::sums_offset(columns));
  alignas(64) float ordered[kBlockColumns];
  for (int64_t k = 0; k < columns; k += kBlockColumns, prepared += Layout::kBlockBytes) {
    const int64_t live = columns - k < kBlockColumns ? columns - k : kBlockColumns;
    const int64_t steps = (live + kStep - 1) / kStep;
    for (int64_t s = 0; s < steps; ++s) {
      permute_step<Input, kDigits == 3>(x + k + s * kStep, live - s * kStep, ordered + s * kStep);
    }
    uint32_t maxima[kLanes];
    float units[kLanes], inverses[kLanes];
    lane_maxima(ordered, steps, maxima);
    lane_units<kDigits>(maxima, units, inverses);
    _mm512_store_ps(prepared, _mm512_loadu_ps(units));
    for (int64_t s = 0; s < steps; ++s) {
      std::byte* step = prepared + kVectorBytes + s * Layout::kStepBytes;
      write_digits<kDigits>(ordered + s * kStep, inverses, step);
      write_sums<Input, kDigits>(step, units, (k + s * kStep) / Input::kGroup, columns / Input::kGroup, sums);
    }
  }
}

// ---- reading W

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
  int64_t row_bytes, scale_row_bytes;
  explicit CodeRows(const tensor::MatrixView& w)
      : data(w.data),
        scales(w.scales),
        biases(w.biases),
        row_bytes(w.format.row_bytes(w.columns)),
        scale_row_bytes(w.format.scale_row_bytes(w.columns)) {}
  CodeRow operator[](int64_t n) const {
    return {data + n * row_bytes, scales + n * scale_row_bytes, biases + n * scale_row_bytes};
  }
};

// A step with fewer than 256 columns: its bytes, then zeros.
template <class Format>
[[gnu::noinline]] void expand_tail(const std::byte* data, const std::byte* scales, int64_t live,
                                   CodeStep& step) {
  std::byte padded_data[Format::kStepBytes] = {}, padded_scales[Format::kStepScaleBytes + 1] = {};
  std::memcpy(padded_data, data, Format::kStepBytes * live / kStep);
  if (Format::kStepScaleBytes > 0) std::memcpy(padded_scales, scales, Format::kStepScaleBytes * live / kStep);
  Format::expand(padded_data, padded_scales, step);
}

// ---- products

// What a lane's integer sum starts from, given its extra.
template <int kZero>
[[gnu::always_inline]] inline __m512i start_sum(const std::byte* offset) {
  return kZero != 0 ? _mm512_load_si512(offset) : _mm512_setzero_si512();
}

// A step of kOutputs rows of W times one prepared step of x, added to the block's sums: every vector of x is
// loaded once for all of them.
template <class Format, int kDigits, int kOutputs>
[[gnu::always_inline]] inline void add_step(const CodeStep steps[kOutputs], const std::byte* x,
                                            __m512 sums[kOutputs]) {
  using Layout = InputLayout<typename Format::Input, kDigits>;
  __m512i digits[kDigits][kOutputs];
  for (int d = 0; d < kDigits; ++d) {
    const __m512i start =
        d == 0 ? _mm512_setzero_si512()
               : start_sum<Format::Input::kZero>(x + Layout::kOffsets + (d - 1) * kVectorBytes);
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
  using Layout = InputLayout<typename Format::Input, kDigits>;
  const int64_t columns = work.weight->columns, x_stride = work.input_stride;
  const std::byte* x = work.inputs + first * x_stride;
  CodeRow row[kOutputs];
  __m512 sums[kRows][kOutputs];
  for (int i = 0; i < kOutputs; ++i) {
    row[i] = rows[n[i]];
    for (int r = 0; r < kRows; ++r) sums[r][i] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < columns; k += kBlockColumns, x += Layout::kBlockBytes) {
    const int64_t live = columns - k < kBlockColumns ? columns - k : kBlockColumns;
    const std::byte* x_step = x + kVectorBytes;
    __m512 block_sums[kRows][kOutputs];
    for (auto& row_sums : block_sums) {
      for (auto& sum : row_sums) sum = _mm512_setzero_ps();
    }
    CodeStep steps[kOutputs];
    const auto add = [&]() __attribute__((always_inline)) {
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
        if constexpr (kRows * kOutputs > 2) fetch_ahead<Format::kStepBytes>(row[i].data);
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
        for (int r = 0; r < kRows; ++r) {
          sums[r][i] = _mm512_fmadd_ps(bias, _mm512_load_ps(x_sums + r * x_stride), sums[r][i]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) {
      work.sums[(first + r) * work.sums_stride + n[i] - work.begin] = sum_lanes(sums[r][i]);
    }
  }
}

// Formats whose scales lie apart read three arrays per row: more than one row of W at a time is then too many
// streams (q4g64 from memory, of a raw read: one row 82 %, two 77 %, four 58 %).
template <class Format, int kDigits>
void multiply_streamed(const MatmulColumns& work) {
  constexpr int kStreams = Format::Input::kBiases == Biases::per_row ? 1 : 2;
  constexpr int kMostRows = kDigits == 2 ? 3 : 2;
  const CodeRows rows(*work.weight);
  for_streams<kStreams, kMostRows>(work, [&](const int64_t* n, auto streams, int64_t first, auto count) {
    multiply_rows<Format, kDigits, count.value, streams.value>(work, rows, n, first);
  });
}

// More rows: a panel is one block of columns; it holds, per step, the four vectors, then the lanes' scales,
// then biases of the step.
template <class Format, int kDigits>
struct CodePanel {
  using Layout = InputLayout<typename Format::Input, kDigits>;
  static constexpr bool kStepBiases = Format::Input::kBiases == Biases::per_step;
  static constexpr int64_t kScale = kCodeVectors * kVectorBytes;  // offset in a step
  static constexpr int64_t kStepBytes = kScale + (kStepBiases ? 2 : 1) * kVectorBytes;
  static constexpr int64_t kColumns = kBlockColumns;
  static constexpr int64_t kBytes = kBlockSteps * kStepBytes;
  static constexpr int kTileRows = 4;
  static constexpr int64_t kFetchColumns = kStep;

  static int64_t input_offset(int64_t k) { return k / kBlockColumns * Layout::kBlockBytes; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    CodeRow row = CodeRows(weight)[n];
    row.data += k / kStep * Format::kStepBytes;
    row.scales += k / kStep * Format::kStepScaleBytes;
    for (int64_t s = 0; s < live; s += kStep, panel += kStepBytes) {
      CodeStep step;
      if (live - s >= kStep) {
        Format::expand(row.data, row.scales, step);
      } else {
        expand_tail<Format>(row.data, row.scales, live - s, step);
      }
      for (int v = 0; v < kCodeVectors; ++v) _mm512_store_si512(panel + v * kVectorBytes, step.codes[v]);
      _mm512_store_ps(panel + kScale, step.scale);
      if (kStepBiases) _mm512_store_ps(panel + kScale + kVectorBytes, step.bias);
      row.data += Format::kStepBytes;
      row.scales += Format::kStepScaleBytes;
    }
  }

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
                   const PanelFetch& fetch, float* row_sums) {
    constexpr int64_t kDigitBytes = kCodeVectors * kVectorBytes;
    constexpr int kZero = Format::Input::kZero;
    alignas(64) float block_sums[kRows][kOutputs][kLanes] = {};
    __m512i sums[kRows][kOutputs];
    const std::byte* digits = x + kVectorBytes;
    for (int64_t s = 0; s < live; s += kStep, digits += Layout::kStepBytes, panel += kStepBytes) {
      fetch(s / kStep);
      for (auto& row : sums) {
        for (auto& sum : row) sum = _mm512_setzero_si512();
      }
      add_digit<kRows, kOutputs>(digits, x_stride, panel, sums);
      for (int r = 0; r < kRows; ++r) {
        const __m512i start = start_sum<kZero>(digits + r * x_stride + Layout::kOffsets);
        for (int i = 0; i < kOutputs; ++i) {
          sums[r][i] = _mm512_slli_epi32(sums[r][i], 8);
          if (kZero != 0) sums[r][i] = _mm512_add_epi32(sums[r][i], start);
        }
      }
      add_digit<kRows, kOutputs>(digits + kDigitBytes, x_stride, panel, sums);
      scale_sums<kRows, kOutputs>(panel, kDigits == 3 ? 256 : 1, sums, block_sums);
      if constexpr (kDigits == 3) {
        for (int r = 0; r < kRows; ++r) {
          const __m512i start = start_sum<kZero>(digits + r * x_stride + Layout::kOffsets + kVectorBytes);
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
        float* place = row_sums + (r * kTileOutputs + i) * kLanes;
        _mm512_store_ps(place,
                        _mm512_fmadd_ps(units, _mm512_load_ps(block_sums[r][i]), _mm512_load_ps(place)));
      }
    }
  }

  template <int kRows, int kOutputs>
  static void add_step_biases(const std::byte* digits, int64_t x_stride, const std::byte* panel,
                              float* row_sums) {
    for (int r = 0; r < kRows; ++r) {
      const __m512 x_sums = _mm512_load_ps(digits + r * x_stride + Layout::kLaneSums);
      for (int i = 0; i < kOutputs; ++i) {
        float* place = row_sums + (r * kTileOutputs + i) * kLanes;
        const __m512 bias = _mm512_load_ps(panel + i * kBytes + kScale + kVectorBytes);
        _mm512_store_ps(place, _mm512_fmadd_ps(bias, x_sums, _mm512_load_ps(place)));
      }
    }
  }

  // The groups' biases: those of up to 64 groups are expanded at a time and stay in registers for all rows.
  static void finish_outputs(const MatmulColumns& work, int64_t n, int outputs, int64_t first, int64_t rows,
                             float* sums) {
    if constexpr (Format::Input::kBiases == Biases::per_row) {
      constexpr int kVectors = 4;
      const int64_t columns = work.weight->columns, groups = columns / Format::Input::kGroup;
      const CodeRows weight_rows(*work.weight);
      const std::byte* x = work.inputs + first * work.input_stride + Layout::sums_offset(columns);
      for (int i = 0; i < outputs; ++i) {
        const std::byte* biases = weight_rows[n + i].biases;
        for (int64_t g = 0; g < groups; g += kVectors * kLanes) {
          const int64_t left = (groups - g + kLanes - 1) / kLanes;
          const int vectors = static_cast<int>(left < kVectors ? left : kVectors);
          __m512 bias[kVectors];
          for (int j = 0; j < vectors; ++j) {
            const int64_t group = g + j * kLanes;
            bias[j] = Format::Scale::load(biases + group * Format::Scale::kBytes, groups - group);
          }
          for (int64_t r = 0; r < rows; ++r) {
            float* place = sums + (r * kTileOutputs + i) * kLanes;
            const std::byte* x_sums = x + r * work.input_stride + 4 * g;
            __m512 sum = _mm512_load_ps(place);
            for (int j = 0; j < vectors; ++j) {
              sum = _mm512_fmadd_ps(bias[j], _mm512_load_ps(x_sums + j * kVectorBytes), sum);
            }
            _mm512_store_ps(place, sum);
          }
        }
      }
    }
  }
};

// Four rows of x are too large for the first-level cache (K 4096: 34 KB); panels win from there on.
template <class Format, int kDigits>
void multiply_codes(const MatmulColumns& work) {
  if (work.rows <= 3) return multiply_streamed<Format, kDigits>(work);
  multiply_blocked<CodePanel<Format, kDigits>>(work);
}

template <class Format, int kDigits>
MatmulBody codes_body_of() {
  using Input = typename Format::Input;
  return {InputLayout<Input, kDigits>::bytes, prepare_codes<Input, kDigits>,
          blocked_scratch_bytes<CodePanel<Format, kDigits>>, multiply_codes<Format, kDigits>};
}

template <class Format>
MatmulBody codes_body(MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16_inputs ? codes_body_of<Format, 2>() : codes_body_of<Format, 3>();
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

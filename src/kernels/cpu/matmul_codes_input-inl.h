// How x is prepared for the integer dot products of matmul_codes-inl.h: written in signed base-256 digits, in
// the order in which a format's lanes want it.
#pragma once

#include "kernels/cpu/matmul_driver.h"
#include "kernels/cpu/vector-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int64_t kVectorBytes = 64;
constexpr int64_t kStep = 256;      // columns
constexpr int kCodeVectors = 4;     // of 64 codes per step
constexpr int64_t kBlockSteps = 4;  // steps that share a lane's scale of x
constexpr int64_t kBlockColumns = kStep * kBlockSteps;

// Where the biases of a format are added.
enum class Biases { none, per_row, per_step };

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
template <int kDigits, bool kHasZero, bool kStepBiases>
struct InputLayout {
  static constexpr int64_t kExtras = (kHasZero ? kDigits - 1 : 0) + (kStepBiases ? 1 : 0);
  static constexpr int64_t kStepBytes = (kDigits * kCodeVectors + kExtras) * kVectorBytes;
  static constexpr int64_t kBlockBytes = kVectorBytes + kBlockSteps * kStepBytes;
  static constexpr int64_t kOffsets = kDigits * kCodeVectors * kVectorBytes;  // of the first extra in a step
  static constexpr int64_t kLaneSums = kStepBytes - kVectorBytes;             // Biases::per_step

  static int64_t sums_offset(int64_t columns) {
    return (columns + kBlockColumns - 1) / kBlockColumns * kBlockBytes;
  }
};

template <class Input, int kDigits>
using LayoutOf = InputLayout<kDigits, Input::kZero != 0, Input::kBiases == Biases::per_step>;

template <class Input, int kDigits>
int64_t code_input_bytes(int64_t columns) {
  int64_t sums = 0;
  if constexpr (Input::kBiases == Biases::per_row) {
    sums = (columns / Input::kGroup + kLanes - 1) / kLanes * kVectorBytes;
  }
  return LayoutOf<Input, kDigits>::sums_offset(columns) + sums;
}

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
  using Layout = LayoutOf<Input, kDigits>;
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
  using Layout = LayoutOf<Input, kDigits>;
  float* sums = reinterpret_cast<float*>(prepared + Layout::sums_offset(columns));
  std::memset(sums, 0, code_input_bytes<Input, kDigits>(columns) - Layout::sums_offset(columns));
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

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

// Products by the bf16 dot product of AVX-512 (vdpbf16ps): codes of a quantised weight, and bf16 weights
// themselves, are bf16 values exactly; x is rounded to bf16, or split into a bf16 high part and a bf16
// remainder (16 significand bits).
//
// Order of summation. A row of W is read in steps of 256 columns, as eight vectors of 32 codes whose lanes
// are laid out so that all of a lane's codes share one group. Per step a lane's products form one chain from
// zero, vector by vector (all high parts, then all remainders); the chain times the lane's scale is added to
// the lane's sum. After the last step come the groups' biases times the sums of x over the groups, then lanes
// are folded in halves. x is permuted to the same layout once, and padded with zeros to a whole step.
#pragma once

#include "kernels/cpu/matmul_blocked-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

constexpr int kStep = 256;   // columns
constexpr int kVectors = 8;  // of 32 bf16 per step
constexpr int kVectorBytes = 64;

// Where the biases of a format are added.
enum class Biases { none, per_row, per_step };

// The bf16 of a small integer, exact up to 256.
constexpr uint16_t bf16_of(int value) {
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, static_cast<float>(value)) >> 16);
}

struct DotStep {
  __m512bh codes[kVectors];
  __m512 scale;  // of each lane's group
  __m512 bias;   // Biases::per_step only
};

// How a format orders the columns of a step, and what it wants to know of x beside the values. An Input type
// has
//   column(v, i)       the column that element i of vector v holds
//   kGroup             columns per group
//   lane_group(lane)   the group that all columns of a lane lie in
//   kBiases
//
// Prepared row: per step kParts·8 vectors (high parts, then remainders) and, with Biases::per_step, a vector
// of sums of the rounded x over each lane's columns. With Biases::per_row a float per group follows the last
// step, the sum of the rounded x over the group, padded to whole vectors.
inline int64_t steps_of(int64_t columns) { return (columns + kStep - 1) / kStep; }

template <class Input, int kParts>
constexpr int64_t kStepInput = (kParts * kVectors + (Input::kBiases == Biases::per_step)) * kVectorBytes;

template <class Input>
int64_t group_sum_vectors(int64_t columns) {
  if constexpr (Input::kBiases != Biases::per_row) return 0;
  return (columns / Input::kGroup + kLanes - 1) / kLanes;
}

template <class Input, int kParts>
int64_t dot_input_bytes(int64_t columns) {
  return steps_of(columns) * kStepInput<Input, kParts> + group_sum_vectors<Input>(columns) * kVectorBytes;
}

// Input::column as a table.
template <class Input>
struct StepOrder {
  alignas(64) uint16_t source[kVectors][32];

  constexpr StepOrder() : source() {
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < 32; ++i) source[v][i] = static_cast<uint16_t>(Input::column(v, i));
    }
  }
};
template <class Input>
constexpr StepOrder<Input> kStepOrder{};

[[gnu::always_inline]] inline __m512bh as_bf16(__m512i words) { return reinterpret_cast<__m512bh>(words); }
[[gnu::always_inline]] inline __m512i as_words(__m512bh values) { return reinterpret_cast<__m512i>(values); }

// Permutes 256 words in natural order to the order of the format.
template <class Input>
inline void permute_step(const __m512i natural[kVectors], std::byte* out) {
  for (int v = 0; v < kVectors; ++v) {
    const __m512i source = _mm512_load_si512(kStepOrder<Input>.source[v]);
    const __m512i quarter = _mm512_srli_epi16(source, 6);  // 64 columns, two natural vectors
    __m512i picked = _mm512_permutex2var_epi16(natural[0], source, natural[1]);
    for (int q = 1; q < 4; ++q) {
      const __mmask32 here = _mm512_cmpeq_epi16_mask(quarter, _mm512_set1_epi16(static_cast<short>(q)));
      picked = _mm512_mask_mov_epi16(picked, here,
                                     _mm512_permutex2var_epi16(natural[2 * q], source, natural[2 * q + 1]));
    }
    _mm512_store_si512(out + v * kVectorBytes, picked);
  }
}

// The sum of each lane's columns of a prepared step.
template <int kParts>
inline __m512 lane_sums(const std::byte* prepared) {
  const __m512bh ones = as_bf16(_mm512_set1_epi16(0x3F80));
  __m512 sum = _mm512_setzero_ps();
  for (int v = 0; v < kParts * kVectors; ++v) {
    sum = _mm512_dpbf16_ps(sum, ones, as_bf16(_mm512_load_si512(prepared + v * kVectorBytes)));
  }
  return sum;
}

template <class Input, int kParts>
void prepare_dot(const float* x, int64_t columns, std::byte* prepared) {
  float* sums = reinterpret_cast<float*>(prepared + steps_of(columns) * kStepInput<Input, kParts>);
  std::memset(sums, 0, group_sum_vectors<Input>(columns) * kVectorBytes);
  for (int64_t k = 0; k < columns; k += kStep, prepared += kStepInput<Input, kParts>) {
    alignas(64) float tail[kStep];
    const float* from = x + k;
    if (columns - k < kStep) {
      std::memset(tail, 0, sizeof(tail));
      std::memcpy(tail, from, 4 * (columns - k));
      from = tail;
    }
    __m512i high[kVectors], low[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const __m512 x0 = _mm512_loadu_ps(from + 32 * v), x1 = _mm512_loadu_ps(from + 32 * v + 16);
      high[v] = as_words(_mm512_cvtne2ps_pbh(x1, x0));
      if constexpr (kParts == 2) {
        const __m512i h0 = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(high[v]));
        const __m512i h1 = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high[v], 1));
        low[v] =
            as_words(_mm512_cvtne2ps_pbh(_mm512_sub_ps(x1, _mm512_castsi512_ps(_mm512_slli_epi32(h1, 16))),
                                         _mm512_sub_ps(x0, _mm512_castsi512_ps(_mm512_slli_epi32(h0, 16)))));
      }
    }
    permute_step<Input>(high, prepared);
    if constexpr (kParts == 2) permute_step<Input>(low, prepared + kVectors * kVectorBytes);
    if constexpr (Input::kBiases == Biases::per_step) {
      _mm512_store_ps(prepared + kParts * kVectors * kVectorBytes, lane_sums<kParts>(prepared));
    } else if constexpr (Input::kBiases == Biases::per_row) {
      float lanes[kLanes];
      _mm512_storeu_ps(lanes, lane_sums<kParts>(prepared));
      for (int l = 0; l < kLanes; ++l) {
        const int64_t group = k / Input::kGroup + Input::lane_group(l);
        if (group * Input::kGroup < columns) sums[group] += lanes[l];
      }
    }
  }
}

// A Format type says how a step is read:
//   Input                        see above
//   kScaled                      whether DotStep::scale is set (else it counts as 1)
//   kStepBytes, kStepScaleBytes  of data and of scales that a step takes; both proportional to the columns
//   Scale                        per_row biases only: load(from, count) → 16 floats, `count` of them live
//   expand(data, scales, step)   reads exactly those bytes
//
// One row of W as pointers.
struct DotRow {
  const std::byte* data;
  const std::byte* scales;
  const std::byte* biases;
};
struct DotRows {
  const tensor::MatrixView& weight;
  const int64_t row_bytes, scale_row_bytes;
  explicit DotRows(const tensor::MatrixView& w)
      : weight(w),
        row_bytes(w.format.row_bytes(w.columns)),
        scale_row_bytes(w.format.scale_row_bytes(w.columns)) {}
  DotRow operator[](int64_t n) const {
    return {weight.data + n * row_bytes, weight.scales + n * scale_row_bytes,
            weight.biases + n * scale_row_bytes};
  }
};

// A step with fewer than 256 columns: its bytes, then zeros.
template <class Format>
[[gnu::noinline]] void expand_tail(const std::byte* data, const std::byte* scales, int64_t live,
                                   DotStep& step) {
  std::byte padded_data[Format::kStepBytes] = {}, padded_scales[Format::kStepScaleBytes + 1] = {};
  std::memcpy(padded_data, data, Format::kStepBytes * live / kStep);
  if (Format::kStepScaleBytes > 0) std::memcpy(padded_scales, scales, Format::kStepScaleBytes * live / kStep);
  Format::expand(padded_data, padded_scales, step);
}

// A chain's step scaled, biased and added to the lanes' sums.
template <class Format, int kParts>
[[gnu::always_inline]] inline __m512 add_chain(__m512 chain, __m512 scale, __m512 bias, const std::byte* x,
                                               __m512 sum) {
  sum = Format::kScaled ? _mm512_fmadd_ps(scale, chain, sum) : _mm512_add_ps(sum, chain);
  if constexpr (Format::Input::kBiases == Biases::per_step) {
    sum = _mm512_fmadd_ps(bias, _mm512_load_ps(x + kParts * kVectors * kVectorBytes), sum);
  }
  return sum;
}

// A step times one prepared step of x, added to the lanes' sums.
template <class Format, int kParts>
[[gnu::always_inline]] inline __m512 add_step(const DotStep& step, const std::byte* x, __m512 sum) {
  __m512 chain = _mm512_setzero_ps();
  for (int p = 0; p < kParts; ++p) {
    for (int v = 0; v < kVectors; ++v) {
      chain = _mm512_dpbf16_ps(chain, step.codes[v],
                               as_bf16(_mm512_load_si512(x + (p * kVectors + v) * kVectorBytes)));
    }
  }
  return add_chain<Format, kParts>(chain, step.scale, step.bias, x, sum);
}

// What the prepared row holds after its steps.
template <class Format, int kParts>
inline const float* group_sums(const std::byte* prepared, int64_t columns) {
  return reinterpret_cast<const float*>(prepared +
                                        steps_of(columns) * kStepInput<typename Format::Input, kParts>);
}

// Biases of one row times the sums of x over the groups.
template <class Format>
[[gnu::always_inline]] inline __m512 add_row_biases(const std::byte* biases, int64_t columns,
                                                    const float* x_sums, __m512 sum) {
  const int64_t groups = columns / Format::Input::kGroup;
  for (int64_t g = 0; g < groups; g += kLanes) {
    const __m512 bias = Format::Scale::load(biases + g * Format::Scale::kBytes, groups - g);
    sum = _mm512_fmadd_ps(bias, _mm512_load_ps(x_sums + g), sum);
  }
  return sum;
}

// Few rows: codes go from memory to the products through registers, one row of W after another, so that each
// worker reads one linear stream.
template <class Format, int kParts, int kRows>
void multiply_streamed(const MatmulColumns& work) {
  const DotRows weight_rows(*work.weight);
  const int64_t columns = work.weight->columns, full = columns / kStep, tail = columns % kStep;
  for (int64_t n = work.begin; n < work.end; ++n) {
    DotRow row = weight_rows[n];
    const std::byte* const biases = row.biases;
    const std::byte* x = work.inputs;
    __m512 sums[kRows];
    for (auto& sum : sums) sum = _mm512_setzero_ps();
    DotStep step;
    const auto add = [&]() __attribute__((always_inline)) {
      for (int r = 0; r < kRows; ++r) {
        sums[r] = add_step<Format, kParts>(step, x + r * work.input_stride, sums[r]);
      }
    };
    for (int64_t s = 0; s < full; ++s) {
      Format::expand(row.data, row.scales, step);
      add();
      row.data += Format::kStepBytes;
      row.scales += Format::kStepScaleBytes;
      x += kStepInput<typename Format::Input, kParts>;
    }
    if (tail > 0) {
      expand_tail<Format>(row.data, row.scales, tail, step);
      add();
    }
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Format::Input::kBiases == Biases::per_row) {
        const float* x_sums = group_sums<Format, kParts>(work.inputs + r * work.input_stride, columns);
        sums[r] = add_row_biases<Format>(biases, columns, x_sums, sums[r]);
      }
      work.sums[r * work.sums_stride + n - work.begin] = sum_lanes(sums[r]);
    }
  }
}

// More rows: a panel holds, per step, the eight vectors, then the lanes' scales, then biases of the step.
template <class Format, int kParts>
struct DotPanel {
  static constexpr int kStepVectors =
      kVectors + Format::kScaled + (Format::Input::kBiases == Biases::per_step);
  static constexpr int64_t kColumns = 1024;
  static constexpr int64_t kBytes = kColumns / kStep * kStepVectors * kVectorBytes;
  static constexpr int kTileRows = 4;

  static int64_t input_offset(int64_t k) { return k / kStep * kStepInput<typename Format::Input, kParts>; }

  static void expand(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t live, std::byte* panel) {
    DotRow row = DotRows(weight)[n];
    row.data += k / kStep * Format::kStepBytes;
    row.scales += k / kStep * Format::kStepScaleBytes;
    for (int64_t s = 0; s < live; s += kStep, panel += kStepVectors * kVectorBytes) {
      DotStep step;
      if (live - s >= kStep) {
        Format::expand(row.data, row.scales, step);
      } else {
        expand_tail<Format>(row.data, row.scales, live - s, step);
      }
      for (int v = 0; v < kVectors; ++v) {
        _mm512_store_si512(panel + v * kVectorBytes, as_words(step.codes[v]));
      }
      if (Format::kScaled) _mm512_store_ps(panel + kVectors * kVectorBytes, step.scale);
      if (Format::Input::kBiases == Biases::per_step) {
        _mm512_store_ps(panel + (kVectors + 1) * kVectorBytes, step.bias);
      }
      row.data += Format::kStepBytes;
      row.scales += Format::kStepScaleBytes;
    }
  }

  template <int kRows, int kOutputs>
  static void tile(const std::byte* x, int64_t x_stride, const std::byte* panel, int64_t live, float* sums) {
    for (int64_t s = 0; s < live; s += kStep) {
      __m512 chains[kRows][kOutputs];
      for (auto& row : chains) {
        for (auto& chain : row) chain = _mm512_setzero_ps();
      }
      for (int p = 0; p < kParts; ++p) {
        for (int v = 0; v < kVectors; ++v) {
          __m512bh codes[kOutputs];
          for (int i = 0; i < kOutputs; ++i) {
            codes[i] = as_bf16(_mm512_load_si512(panel + i * kBytes + v * kVectorBytes));
          }
          for (int r = 0; r < kRows; ++r) {
            const __m512bh input =
                as_bf16(_mm512_load_si512(x + r * x_stride + (p * kVectors + v) * kVectorBytes));
            for (int i = 0; i < kOutputs; ++i) {
              chains[r][i] = _mm512_dpbf16_ps(chains[r][i], codes[i], input);
            }
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kOutputs; ++i) {
          float* place = sums + (r * kTileOutputs + i) * kLanes;
          const std::byte* after = panel + i * kBytes + kVectors * kVectorBytes;
          const __m512 scale = Format::kScaled ? _mm512_load_ps(after) : _mm512_setzero_ps();
          const __m512 bias = Format::Input::kBiases == Biases::per_step
                                  ? _mm512_load_ps(after + kVectorBytes)
                                  : _mm512_setzero_ps();
          _mm512_store_ps(place, add_chain<Format, kParts>(chains[r][i], scale, bias, x + r * x_stride,
                                                           _mm512_load_ps(place)));
        }
      }
      x += kStepInput<typename Format::Input, kParts>;
      panel += kStepVectors * kVectorBytes;
    }
  }

  static void finish_outputs(const MatmulColumns& work, int64_t n, int outputs, int64_t first, int64_t rows,
                             float* sums) {
    if constexpr (Format::Input::kBiases == Biases::per_row) {
      const int64_t columns = work.weight->columns;
      const DotRows weight_rows(*work.weight);
      for (int64_t r = 0; r < rows; ++r) {
        const float* x_sums =
            group_sums<Format, kParts>(work.inputs + (first + r) * work.input_stride, columns);
        for (int i = 0; i < outputs; ++i) {
          float* place = sums + (r * kTileOutputs + i) * kLanes;
          _mm512_store_ps(place, add_row_biases<Format>(weight_rows[n + i].biases, columns, x_sums,
                                                        _mm512_load_ps(place)));
        }
      }
    }
  }
};

template <class Format, int kParts>
void multiply_dot(const MatmulColumns& work) {
  switch (work.rows) {
    case 1:
      return multiply_streamed<Format, kParts, 1>(work);
    case 2:
      return multiply_streamed<Format, kParts, 2>(work);
    default:
      return multiply_blocked<DotPanel<Format, kParts>>(work);
  }
}

template <class Format, int kParts>
MatmulBody dot_body_of() {
  using Input = typename Format::Input;
  return {dot_input_bytes<Input, kParts>, prepare_dot<Input, kParts>,
          blocked_scratch_bytes<DotPanel<Format, kParts>>, multiply_dot<Format, kParts>};
}

template <class Format>
MatmulBody dot_body(MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16_inputs ? dot_body_of<Format, 1>() : dot_body_of<Format, 2>();
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

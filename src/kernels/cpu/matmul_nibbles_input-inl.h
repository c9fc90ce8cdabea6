// How x is prepared for the products of 4-bit codes in matmul_nibbles-inl.h: rounded to bf16, in the order in
// which a format's nibbles come out of their words.
#pragma once

#include "kernels/cpu/matmul_bf16-inl.h"
#include "kernels/cpu/matmul_codes_input-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// How a format orders the 256 columns of a step, and what it wants to know of x beside the values. An Input
// type has
//   column(v, e)       the column of element e (of 32) of vector v (of 8); lane l is elements 2l and 2l + 1
//   kGroup             columns per group
//   lane_group(lane)   the group that all columns of a lane lie in
//   kBiases            where the biases of the format are added
//
// Prepared row: per step eight vectors of bf16 and, with Biases::per_step, each lane's sum of x. With
// Biases::per_row a float per group follows the last step, the sum of x over the group, padded to whole
// vectors. All sums are of x as it was rounded.
template <class Input>
struct NibbleLayout {
  static constexpr int64_t kStepBytes =
      kDotStepBytes + (Input::kBiases == Biases::per_step ? kVectorBytes : 0);

  static int64_t sums_offset(int64_t columns) { return dot_steps(columns) * kStepBytes; }
  static int64_t sums_bytes(int64_t columns) {
    if constexpr (Input::kBiases != Biases::per_row) return 0;
    return (columns / Input::kGroup + kLanes - 1) / kLanes * kVectorBytes;
  }
};

template <class Input>
int64_t nibble_input_bytes(int64_t columns) {
  return NibbleLayout<Input>::sums_offset(columns) + NibbleLayout<Input>::sums_bytes(columns);
}

// Input::column as a table: the column of each element, vector after vector.
template <class Input>
struct NibbleOrder {
  alignas(64) uint16_t column[kDotStep];
  constexpr NibbleOrder() : column() {
    for (int i = 0; i < kDotStep; ++i) column[i] = static_cast<uint16_t>(Input::column(i / 32, i % 32));
  }
};
template <class Input>
constexpr NibbleOrder<Input> kNibbleOrder{};

// 256 values, `live` of them and then zeros, rounded to bf16 in the order of the columns.
inline void round_step(const float* x, int64_t live, __m512i words[kDotVectors]) {
  alignas(64) float tail[kDotStep];
  if (live < kDotStep) {
    std::memset(tail, 0, sizeof(tail));
    std::memcpy(tail, x, 4 * live);
    x = tail;
  }
  for (int v = 0; v < kDotVectors; ++v) {
    words[v] = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 32 * v + 16), _mm512_loadu_ps(x + 32 * v)));
  }
}

// Lanes sorted so that those of one group lie a step's groups apart.
template <class Input>
struct LanesByGroup {
  static constexpr int kGroups = kDotStep / Input::kGroup;
  alignas(64) int32_t lane[kLanes];
  constexpr LanesByGroup() : lane() {
    int taken[kGroups] = {};
    for (int l = 0; l < kLanes; ++l) {
      const int group = Input::lane_group(l);
      lane[group + kGroups * taken[group]++] = l;
    }
  }
};
template <class Input>
constexpr LanesByGroup<Input> kLanesByGroup{};

// The sums of a step's groups out of those of its lanes.
template <class Input>
void fold_groups(__m512 lane_sums, float* group_sums) {
  constexpr int kGroups = LanesByGroup<Input>::kGroups;
  const __m512 sorted = _mm512_permutexvar_ps(_mm512_load_si512(kLanesByGroup<Input>.lane), lane_sums);
  __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sorted), _mm512_extractf32x8_ps(sorted, 1));
  if constexpr (kGroups == 8) return _mm256_storeu_ps(group_sums, eight);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  if constexpr (kGroups == 4) return _mm_storeu_ps(group_sums, four);
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  static_assert(kGroups >= 2);
  _mm_storel_pi(reinterpret_cast<__m64*>(group_sums), four);
}

template <class Input>
void prepare_nibbles(const float* x, int64_t columns, std::byte* prepared) {
  using Layout = NibbleLayout<Input>;
  float* group_sums = reinterpret_cast<float*>(prepared + Layout::sums_offset(columns));
  std::memset(group_sums, 0, Layout::sums_bytes(columns));
  for (int64_t k = 0; k < columns; k += kDotStep, prepared += Layout::kStepBytes) {
    __m512i words[kDotVectors];
    round_step(x + k, columns - k, words);
    __m512 sum = _mm512_setzero_ps();
    for (int v = 0; v < kDotVectors; ++v) {
      const __m512i ordered = pick_words(words, kNibbleOrder<Input>.column + 32 * v);
      _mm512_store_si512(prepared + v * kDotVectorBytes, ordered);
      sum = _mm512_dpbf16_ps(sum, as_bf16(_mm512_set1_epi16(0x3F80)), as_bf16(ordered));
    }
    if constexpr (Input::kBiases == Biases::per_step) _mm512_store_ps(prepared + kDotStepBytes, sum);
    if constexpr (Input::kBiases == Biases::per_row) {
      fold_groups<Input>(sum, group_sums + k / Input::kGroup);
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

// Plain weights: f32, f16, bf16, as fp32.
#pragma once

#include "kernels/cpu/matmul_float-inl.h"
#include "kernels/cpu/matmul_values-inl.h"

namespace rafter::kernels::RAFTER_TIER {
namespace {

// How kLanes elements are read.
struct F32Values {
  static constexpr int64_t kBytes = 4;
  [[gnu::always_inline]] static Floats load_lanes(const std::byte* from) { return load_bytes<Floats>(from); }
};
struct F16Values {
  static constexpr int64_t kBytes = 2;
  [[gnu::always_inline]] static Floats load_lanes(const std::byte* from) { return load_f16(from); }
};
struct Bf16Values {
  static constexpr int64_t kBytes = 2;
  [[gnu::always_inline]] static Floats load_lanes(const std::byte* from) { return load_bf16_lanes(from); }
};

template <class Values>
[[gnu::always_inline]] inline Floats load_tail(const std::byte* from, int64_t live) {
  std::byte padded[kLanes * Values::kBytes] = {};
  std::memcpy(padded, from, live * Values::kBytes);
  return Values::load_lanes(padded);
}

template <class Values>
struct PlainDecoder {
  static void decode(const tensor::MatrixView& weight, int64_t n, int64_t k, int64_t count, float* out) {
    const std::byte* from = weight.data + (n * weight.columns + k) * Values::kBytes;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(out + i, Values::load_lanes(from + i * Values::kBytes));
    if (i == count) return;
    float lanes[kLanes];
    store(lanes, load_tail<Values>(from + i * Values::kBytes, count - i));
    std::memcpy(out + i, lanes, 4 * (count - i));
  }
};

// kOutputs rows of W, n[i], times kRows rows of x; elements go from memory to the products through registers.
template <class Values, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_plain_rows(const MatmulColumns& work, const int64_t n[kOutputs],
                                                       int64_t first) {
  const int64_t columns = work.weight->columns;
  const std::byte* x = work.inputs + first * work.input_stride;
  const std::byte* weights[kOutputs];
  for (int i = 0; i < kOutputs; ++i) weights[i] = work.weight->data + n[i] * columns * Values::kBytes;
  Floats sums[kRows][kOutputs] = {};
  int64_t k = 0;
  const auto add = [&](const Floats values[kOutputs]) __attribute__((always_inline)) {
    for (int r = 0; r < kRows; ++r) {
      const Floats input = load(reinterpret_cast<const float*>(x + r * work.input_stride) + k);
      for (int i = 0; i < kOutputs; ++i) sums[r][i] = multiply_add(values[i], input, sums[r][i]);
    }
  };
  Floats values[kOutputs];
  for (; k + kLanes <= columns; k += kLanes) {
    for (int i = 0; i < kOutputs; ++i) values[i] = Values::load_lanes(weights[i] + k * Values::kBytes);
    add(values);
  }
  if (k < columns) {
    for (int i = 0; i < kOutputs; ++i) {
      values[i] = load_tail<Values>(weights[i] + k * Values::kBytes, columns - k);
    }
    add(values);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kOutputs; ++i) {
      work.sums[(first + r) * work.sums_stride + n[i] - work.begin] = sum_lanes(sums[r][i]);
    }
  }
}

// Four rows of W at a time: with one row of x, as many independent chains as the latency of a multiply-add
// asks for.
template <class Values>
void multiply_plain(const MatmulColumns& work) {
  if (work.rows > 8) return multiply_blocked<FloatPanel<PlainDecoder<Values>>>(work);
  for_streams<4, 2>(work, [&](const int64_t* n, auto streams, int64_t first, auto rows) {
    multiply_plain_rows<Values, rows.value, streams.value>(work, n, first);
  });
}

template <class Values>
MatmulBody plain_body(MatmulPrecision precision) {
  MatmulBody body = float_body<PlainDecoder<Values>>(precision);
  body.multiply = multiply_plain<Values>;
  return body;
}

}  // namespace
}  // namespace rafter::kernels::RAFTER_TIER

// What rows appended to a cache with codes decode to, against the rows themselves: every call's rows are
// quantised, by scales of their own, and none changes afterwards.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/op/kernel_table.h"
#include "tests/kernels/test_cache.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {

using AppendKernel = void (*)(const KvAppendArgs&, Worker&);

// What a row is quantised as: a key less the mean of the rows before it in its block that it is relative to.
// `read`: the block's rows as they decode, [slot][head_dim].
inline std::vector<float> quantized_part(const KvLayer& layer, bool is_key, int64_t slot, const float* x,
                                         const std::vector<float>& read) {
  std::vector<float> part(x, x + layer.head_dim);
  const int64_t rows = is_key ? key_reference_rows(slot) : 0;
  for (int64_t d = 0; d < layer.head_dim; ++d) {
    double mean = 0;
    for (int64_t p = 0; p < rows; ++p) mean += read[p * layer.head_dim + d] / static_cast<double>(rows);
    part[d] -= static_cast<float>(mean);
  }
  return part;
}

// The rows of one head of a block as they decode, [slot][head_dim].
inline std::vector<float> read_block(const KvLayer& layer, bool is_key, int64_t block, int64_t kv_head,
                                     int64_t rows) {
  std::vector<float> read(rows * layer.head_dim);
  if (is_key) {
    reference::dequantize_keys(layer, layer.keys + block, kv_head, rows, read.data());
  } else {
    for (int64_t p = 0; p < rows; ++p)
      reference::dequantize_value(layer, layer.values + block, kv_head, p, read.data() + p * layer.head_dim);
  }
  return read;
}

// How far x may be from what its codes stand for, in L2: half a step for each value of the rotated row, a
// step being range / n, widened by the roundings of bias and scale to bf16. The rotation keeps lengths.
inline double codes_bound(const KvLayer& layer, const float* x) {
  std::vector<float> rotated(x, x + layer.head_dim);
  reference::rotate_row(layer, rotated.data());
  const double highest = (1 << layer.codes.bits) - 1;
  double squares = 0;
  for (int64_t g = 0; g < layer.groups(); ++g) {
    const auto begin = rotated.begin() + g * layer.codes.group_size;
    const auto [low, high] = std::minmax_element(begin, begin + layer.codes.group_size);
    const double step = (double{*high} - *low + std::abs(double{*low}) / 128) / highest * (1 + 1.0 / 128);
    squares += layer.codes.group_size * step * step / 4;
  }
  return std::sqrt(squares) + rounding_bound(l2_norm({x, static_cast<size_t>(layer.head_dim)}), 16);
}

// Appends 150 positions of one sequence in calls of 70, 1, 1, 64 and 14 rows and reads all of them back after
// each call. The first fault, or "".
inline std::string check_append_calls(AppendKernel append, KvCodes codes, int32_t head_dim) {
  constexpr int kCalls[] = {70, 1, 1, 64, 14}, kKvHeads = 2;
  KvLayer layer;
  layer.kv_heads = kKvHeads;
  layer.head_dim = head_dim;
  layer.codes = codes;
  layer.block_stride = 2 * layer.side_bytes();
  GuardedBuffer<std::byte> bytes(3 * static_cast<size_t>(layer.block_stride));
  layer.keys = bytes.data();
  layer.values = layer.keys + layer.side_bytes();
  const int64_t width = kKvHeads * head_dim;
  std::vector<float> k = random_values(150 * width, 31), v = random_values(150 * width, 32);
  for (int p = 0; p < 150; ++p) {  // lengths differ from row to row, as those of real keys do
    for (int64_t i = 0; i < width; ++i) k[p * width + i] *= 1 + p % 7, v[p * width + i] /= 1 + p % 5;
  }
  TestTeam team(2);
  int held = 0;
  for (const int count : kCalls) {
    StepRows step;
    step.block_tables = {2, 0, 1};
    step.block_table_stride = 3;
    for (int i = 0; i < count; ++i) step.add(0, held + i, 0, held + i + 1);
    const StepInput input = step.input();
    team.run(append, KvAppendArgs{&input, layer, k.data() + held * width, v.data() + held * width});
    held += count;
    for (int p = 0; p < held; p += kBlockPositions) {
      const int64_t block = step.block_tables[p / kBlockPositions] * layer.block_stride;
      const int64_t rows = std::min<int64_t>(held - p, kBlockPositions);
      for (int h = 0; h < kKvHeads; ++h) {
        for (const bool is_key : {true, false}) {
          const std::vector<float> read = read_block(layer, is_key, block, h, rows);
          for (int64_t slot = 0; slot < rows; ++slot) {
            const float* x = (is_key ? k : v).data() + (p + slot) * width + h * head_dim;
            const double bound = codes_bound(layer, quantized_part(layer, is_key, slot, x, read).data()) +
                                 rounding_bound(l2_norm({x, static_cast<size_t>(head_dim)}), 16);
            std::vector<float> off(x, x + head_dim);
            for (int d = 0; d < head_dim; ++d) off[d] -= read[slot * head_dim + d];
            if (!(l2_norm(off) <= bound)) {
              return fmt::format("{} of position {}, head {}, after {} rows: off by {}, bound {}",
                                 is_key ? "key" : "value", p + slot, h, held, l2_norm(off), bound);
            }
          }
        }
      }
    }
  }
  return bytes.damage();
}

}  // namespace rafter::kernels::testing

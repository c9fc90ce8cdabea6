// Attention over codes against attention over the rows themselves. The bound follows from the codes' width,
// the groups and the lengths of the rows: a code is off by up to half a step s, evenly, so by s / √12 in the
// root mean square and each by itself; hence
//   a score by      σ = scale · |q| · s_k / √12
//   a value by      √head_dim · s_v / √12 in L2
//   the output by   √(Σ w² (σ² |v − out|² + head_dim · s_v² / 12)), first order in σ,
// and the test allows six times that and the second order. (A worst case, every error pulling the same way,
// is a hundred times that over 150 positions: the faults in tests/mutants would pass.)
#pragma once

#include <cmath>

#include "kernels/op/attention.h"
#include "tests/kernels/kv_codes_check.h"

namespace rafter::kernels::testing {

using AttentionKernel = void (*)(const AttentionArgs&, Worker&);

// The largest step of a row's groups: range / n, widened by the roundings of bias and scale to bf16.
inline double largest_step(const KvLayer& layer, const float* x) {
  std::vector<float> rotated(x, x + layer.head_dim);
  reference::rotate_row(layer, rotated.data());
  double largest = 0;
  for (int64_t g = 0; g < layer.groups(); ++g) {
    const auto begin = rotated.begin() + g * layer.codes.group_size;
    const auto [low, high] = std::minmax_element(begin, begin + layer.codes.group_size);
    largest = std::max(largest, double{*high} - *low + std::abs(double{*low}) / 128);
  }
  return largest / ((1 << layer.codes.bits) - 1) * (1 + 1.0 / 128);
}

struct CodesAttention {
  std::string fault;       // the first one; "" if none
  double worst_share = 0;  // of the bound that an error took
};

// 150 positions with channels of very different sizes, as keys have; the last row's two query heads per kv
// head.
inline CodesAttention check_codes_attention(const KernelTable& kernels, AppendKernel append,
                                            AttentionKernel attention, KvCodes codes, int32_t head_dim) {
  constexpr int32_t kPositions = 150, kKvHeads = 2, kHeads = 4;
  KvLayer layer;
  layer.kv_heads = kKvHeads;
  layer.head_dim = head_dim;
  layer.codes = codes;
  layer.block_stride = 2 * layer.side_bytes();
  GuardedBuffer<std::byte> bytes(3 * static_cast<size_t>(layer.block_stride));
  layer.keys = bytes.data();
  layer.values = layer.keys + layer.side_bytes();
  const int64_t width = kKvHeads * head_dim;
  std::vector<float> k = random_values(kPositions * width, 41), v = random_values(kPositions * width, 42);
  std::vector<float> q = random_values(kHeads * head_dim, 43);
  for (size_t i = 0; i < k.size(); ++i) k[i] = (i % 16 == 3 ? 3 : 0.5f) * k[i] + (i % 32 == 5 ? 2 : 0);
  StepRows step;
  step.block_tables = {2, 0, 1};
  step.block_table_stride = 3;
  for (int p = 0; p < kPositions; ++p) step.add(0, p, 0, p + 1);
  TestTeam team(1);
  const StepInput prompt = step.input();
  team.run(append, KvAppendArgs{&prompt, layer, k.data(), v.data()});
  StepRows last;
  last.block_tables = step.block_tables;
  last.block_table_stride = 3;
  last.add(0, kPositions - 1, 0, kPositions);
  const StepInput input = last.input();
  GuardedBuffer<float> out(kHeads * head_dim);
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  const AttentionArgs args{&input, kHeads, 0, scale, 0, layer, q.data(), out.data()};
  team.set_scratch(kernels.attention_scratch(args, 1, kPositions));
  team.run(attention, args);

  CodesAttention checked;
  const auto row_of = [&](const std::vector<float>& rows, int p, int kv_head) {
    return std::span(rows).subspan(p * width + kv_head * head_dim, head_dim);
  };
  for (int h = 0; h < kHeads; ++h) {
    const int kv_head = h / (kHeads / kKvHeads);
    const auto query = std::span(q).subspan(h * head_dim, head_dim);
    std::vector<double> weights, expected(head_dim, 0.0);
    double total = 0;
    for (int p = 0; p < kPositions; ++p) {
      double score = 0;
      for (int d = 0; d < head_dim; ++d) score += double{query[d]} * row_of(k, p, kv_head)[d];
      total += weights.emplace_back(std::exp(scale * score));
    }
    for (int p = 0; p < kPositions; ++p) {
      for (int d = 0; d < head_dim; ++d) expected[d] += weights[p] / total * row_of(v, p, kv_head)[d];
    }
    double variance = 0, second_order = 0, error = 0;
    for (int p = 0; p < kPositions; ++p) {
      double distance = 0;  // squared
      for (int d = 0; d < head_dim; ++d) distance += std::pow(row_of(v, p, kv_head)[d] - expected[d], 2);
      const double weight = weights[p] / total;
      const int64_t block = step.block_tables[p / kBlockPositions] * layer.block_stride;
      const int64_t slot = p % kBlockPositions;
      const std::vector<float> read = read_block(layer, true, block, kv_head, slot + 1);
      const std::vector<float> key = quantized_part(layer, true, slot, row_of(k, p, kv_head).data(), read);
      const double key_step = largest_step(layer, key.data());
      const double value_step = largest_step(layer, row_of(v, p, kv_head).data());
      const double sigma = scale * l2_norm(query) * key_step / std::sqrt(12);
      variance += weight * weight * (sigma * sigma * distance + head_dim * value_step * value_step / 12);
      second_order += weight * sigma * sigma * std::sqrt(distance);
    }
    for (int d = 0; d < head_dim; ++d) error += std::pow(out.data()[h * head_dim + d] - expected[d], 2);
    const double bound = 6 * std::sqrt(variance) + second_order + rounding_bound(l2_norm(query), kPositions);
    const double share = std::sqrt(error) / bound;
    checked.worst_share = std::max(checked.worst_share, share);
    if (!(share <= 1) && checked.fault.empty())
      checked.fault = fmt::format("head {}: off by {}, bound {}", h, std::sqrt(error), bound);
  }
  if (checked.fault.empty()) checked.fault = bytes.damage() + out.damage();
  return checked;
}

}  // namespace rafter::kernels::testing

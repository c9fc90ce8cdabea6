// Attention problems for tests: a cache, random queries, the rows of a step; how to run one and how far a
// kernel may be off.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/op/attention.h"
#include "tensor/small_float.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_cache.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {

// One row of a step: what it sees, and which of the random queries it has.
struct Row {
  int sequence, position, from, to, query;
};

struct Problem {
  const TestCache* cache = nullptr;
  int32_t heads = 0;
  int32_t window = 0;
  float scale = 0;
  float softcap = 0;
  std::vector<float> queries;  // [any, heads · head_dim], row by Row::query

  int64_t width() const { return int64_t{heads} * cache->layer().head_dim; }
};

inline Problem make_problem(const TestCache& cache, int32_t heads, int32_t window = 0, float softcap = 0) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(cache.layer().head_dim));
  Problem problem{&cache, heads, window, scale, softcap, {}};
  // Exact in bf16, so that kernels that round queries to it see what the reference sees.
  problem.queries = random_values(64 * problem.width(), 21, 1.5f);
  for (float& value : problem.queries) value = tensor::round_to_bf16(value);
  return problem;
}

inline std::vector<float> run_attention(const KernelTable& kernels, TestTeam& team, const Problem& problem,
                                        const std::vector<Row>& rows, int64_t max_positions = 2000) {
  const int64_t width = problem.width(), count = static_cast<int64_t>(rows.size());
  StepRows step;
  problem.cache->set_tables(&step);
  std::vector<float> q;
  for (const Row& row : rows) {
    step.add(row.sequence, row.position, row.from, row.to);
    const auto from = problem.queries.begin() + row.query % 64 * width;
    q.insert(q.end(), from, from + width);
  }
  const StepInput input = step.input();
  GuardedBuffer<float> out((count + 2) * width);
  const AttentionArgs args{&input,          problem.heads,          problem.window, problem.scale,
                           problem.softcap, problem.cache->layer(), q.data(),       out.data()};
  team.set_scratch(kernels.attention_scratch(args, count, max_positions));
  team.run(kernels.attention, args);
  EXPECT_EQ(out.damage(), "");
  EXPECT_EQ(team.damage(), "");
  EXPECT_TRUE(out.untouched(count * width, (count + 2) * width));
  return {out.data(), out.data() + count * width};
}

// The error of a weight e^s is that of its score: an fp32 dot product over head_dim. A weighted mean of
// values is off by twice that (numerator and total), and by the roundings of two sums over the positions.
inline double attention_bound(const Problem& problem, const Row& row) {
  const int64_t head_dim = problem.cache->layer().head_dim;
  double longest_query = 0;
  for (int32_t h = 0; h < problem.heads; ++h) {
    const auto* q = problem.queries.data() + row.query % 64 * problem.width() + h * head_dim;
    longest_query = std::max(longest_query, l2_norm({q, static_cast<size_t>(head_dim)}));
  }
  const double score = problem.scale * longest_query * problem.cache->longest_key();
  const double positions = std::max(1, row.to - row.from);
  return problem.cache->largest_value() *
         (2 * rounding_bound(score, head_dim) + 2 * rounding_bound(1, positions) + rounding_bound(1, 4));
}

// √Σ w² of the weights that each row's softmax gives, the largest of its heads.
inline std::vector<double> weight_norms(const Problem& problem, const std::vector<Row>& rows) {
  const KvLayer& layer = problem.cache->layer();
  const int64_t head_dim = layer.head_dim, group = problem.heads / layer.kv_heads;
  std::map<std::pair<int, int>, std::vector<float>> keys;  // by sequence and position
  std::vector<double> norms;
  for (const Row& row : rows) {
    const int window_from = problem.window > 0 ? row.position - problem.window + 1 : 0;
    const int from = std::max({0, row.from, window_from});
    double largest_norm = 0;
    for (int32_t h = 0; h < problem.heads; ++h) {
      const auto* q = problem.queries.data() + row.query % 64 * problem.width() + h * head_dim;
      std::vector<double> scores;
      for (int p = from; p < row.to; ++p) {
        std::vector<float>& key = keys[{row.sequence, p}];
        std::vector<float> values;
        if (key.empty()) problem.cache->copy_position(row.sequence, p, &key, &values);
        const float* k = key.data() + h / group * head_dim;
        double score = 0;
        for (int64_t d = 0; d < head_dim; ++d) score += double{q[d]} * k[d];
        score *= problem.scale;
        scores.push_back(problem.softcap > 0 ? problem.softcap * std::tanh(score / problem.softcap) : score);
      }
      const double largest = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
      double total = 0, squares = 0;
      for (double score : scores) {
        const double weight = std::exp(score - largest);
        total += weight;
        squares += weight * weight;
      }
      if (total > 0) largest_norm = std::max(largest_norm, std::sqrt(squares) / total);
    }
    norms.push_back(largest_norm);
  }
  return norms;
}

// Weights w rounded to bf16 are off by up to w/512, independently: a mean Σ w·v by a standard deviation of at
// most √Σ w² · |v − mean| / (512·√3), |v − mean| ≤ 2·largest value. Six of those.
inline double rounded_weights_bound(const Problem& problem, double weight_norm) {
  return 6 * weight_norm * 2 * problem.cache->largest_value() / (512 * std::sqrt(3.0));
}

inline std::vector<float> run_row_attention(const KernelTable& kernels, TestTeam& team,
                                            const Problem& problem, const std::vector<Row>& rows) {
  const KvLayer& layer = problem.cache->layer();
  const int64_t width = problem.width(), count = static_cast<int64_t>(rows.size());
  StepRows step;
  std::vector<float> q, k, v;
  for (const Row& row : rows) {
    step.add(row.sequence, row.position, row.from, row.to);
    const auto from = problem.queries.begin() + row.query % 64 * width;
    q.insert(q.end(), from, from + width);
    problem.cache->copy_position(row.sequence, row.position, &k, &v);
  }
  const StepInput input = step.input();
  GuardedBuffer<float> out(count * width);
  team.run(kernels.row_attention,
           RowAttentionArgs{&input, problem.heads, layer.kv_heads, layer.head_dim, problem.window,
                            problem.scale, problem.softcap, q.data(), k.data(), v.data(), out.data()});
  EXPECT_EQ(out.damage(), "");
  return {out.data(), out.data() + count * width};
}

}  // namespace rafter::kernels::testing

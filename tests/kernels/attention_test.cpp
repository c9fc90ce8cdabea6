// Attention of every tier against the reference: every length across block and split boundaries, windows,
// shapes, ragged steps, thread counts, rows alone and in company.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/attention_cases.h"

namespace rafter::kernels::testing {
namespace {

constexpr CacheFormat kEachCodec[] = {
    {tensor::DType::bf16}, {tensor::DType::bf16, 8}, {tensor::DType::bf16, 4}};

class Attention : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  const KernelTable& table() const { return cpu_kernels(GetParam()); }

  // Whether products over this cache are bf16 dot products.
  static bool rounds_weights(const KvLayer& layer) {
    return GetParam() == base::CpuTier::avx512 && !layer.has_codes() && layer.type == tensor::DType::bf16;
  }

  void check_against_reference(const Problem& problem, const std::vector<Row>& rows,
                               const std::vector<float>& actual, const std::string& what) {
    std::vector<double> bounds;
    for (const Row& row : rows) bounds.push_back(attention_bound(problem, row));
    if (rounds_weights(problem.cache->layer())) {
      const std::vector<double> norms = weight_norms(problem, rows);
      for (size_t i = 0; i < rows.size(); ++i) bounds[i] += rounded_weights_bound(problem, norms[i]);
    }
    const std::vector<float> expected = run_attention(reference_kernels(), one_, problem, rows);
    const Verdict verdict = compare_values(actual, expected, problem.width(), bounds);
    ASSERT_TRUE(verdict.ok) << what << ": " << verdict.message;
    tightest_ = std::max(tightest_, verdict.worst);
  }

  void check_bits(std::span<const float> actual, std::span<const float> expected, const std::string& what) {
    const Verdict verdict = compare_bits(actual, expected);
    ASSERT_TRUE(verdict.ok) << what << ": " << verdict.message;
  }

  // Against the reference; the same bits with more threads, with each row alone, and in another order.
  void check_step(const Problem& problem, const std::vector<Row>& rows, const std::string& what) {
    const size_t width = problem.width();
    const std::vector<float> together = run_attention(table(), one_, problem, rows);
    ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, together, what));
    for (TestTeam* team : {&two_, &four_}) {
      ASSERT_NO_FATAL_FAILURE(
          check_bits(run_attention(table(), *team, problem, rows), together, what + ", team"));
    }
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    std::vector<Row> shuffled;
    for (size_t i : order) shuffled.push_back(rows[i]);
    const std::vector<float> out = run_attention(table(), two_, problem, shuffled);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = std::span(together).subspan(order[i] * width, width);
      ASSERT_NO_FATAL_FAILURE(check_bits(std::span(out).subspan(i * width, width), row, what + ", shuffled"));
      if (i % 7 != 0 && i + 1 != rows.size()) continue;
      const std::vector<float> alone = run_attention(table(), two_, problem, {shuffled[i]});
      ASSERT_NO_FATAL_FAILURE(check_bits(alone, row, what + ", alone"));
    }
  }

  void TearDown() override { RecordProperty("worst_error_in_bounds", std::to_string(tightest_)); }

  TestTeam one_{1}, two_{2}, four_{4};
  double tightest_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Tiers, Attention, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

TEST_P(Attention, SoftCap) {
  for (const CacheFormat& format : kCacheFormats) {
    TestCache cache(format, 2, 64, {700});
    cache.set_length(0, 700);
    for (float cap : {0.5f, 5.0f, 50.0f}) {
      for (int window : {0, 100}) {
        const Problem problem = make_problem(cache, 6, window, cap);
        std::vector<Row> rows;
        for (int i = 0; i < 9; ++i) rows.push_back({0, 508 + i, 0, 509 + i, i});
        ASSERT_NO_FATAL_FAILURE(check_step(problem, rows, fmt::format("cap {}, window {}", cap, window)));
        const std::vector<float> out = run_row_attention(table(), two_, problem, rows);
        const std::vector<float> expected = run_row_attention(reference_kernels(), one_, problem, rows);
        const double bound = attention_bound(problem, rows[8]);
        ASSERT_TRUE(compare_values(out, expected, bound).ok);
      }
    }
  }
}

// The cache grows under one and the same arguments, as a bound step sees it: nothing beyond the length is
// ever written, and it is NaN.
TEST_P(Attention, EveryLength) {
  for (const CacheFormat& format : kCacheFormats) {
    TestCache cache(format, 2, 64, {700});
    const Problem problem = make_problem(cache, 6);
    for (int length = 1; length <= 700;
         length += format.bits == 0 && format.type == tensor::DType::bf16 ? 1 : 23) {
      cache.set_length(0, length);
      const std::vector<Row> rows = {{0, length - 1, 0, length, length}};
      const std::vector<float> out = run_attention(table(), one_, problem, rows);
      const std::string what = fmt::format("length {}", length);
      ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, out, what));
      ASSERT_NO_FATAL_FAILURE(
          check_bits(run_attention(table(), two_, problem, rows), out, what + ", 2 threads"));
      if (length % 13 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(
          check_bits(run_attention(table(), four_, problem, rows), out, what + ", 4 threads"));
    }
  }
}

TEST_P(Attention, Shapes) {
  struct Shape {
    int32_t heads, kv_heads, head_dim;
  };
  const Shape shapes[] = {{1, 1, 8},  {9, 3, 64},  {4, 4, 32},  {7, 1, 40},  {16, 1, 64}, {4, 1, 80},
                          {6, 2, 96}, {8, 2, 128}, {12, 1, 16}, {71, 1, 24}, {4, 2, 256}, {3, 1, 512}};
  for (const Shape& shape : shapes) {
    for (const CacheFormat& format : kCacheFormats) {
      TestCache cache(format, shape.kv_heads, shape.head_dim, {300});
      cache.set_length(0, 300);
      const Problem problem = make_problem(cache, shape.heads);
      std::vector<Row> rows;
      for (int i = 0; i < 5; ++i) rows.push_back({0, 253 + i, 0, 254 + i, i});
      ASSERT_NO_FATAL_FAILURE(check_step(
          problem, rows,
          fmt::format("{} of {} heads, head_dim {}", shape.heads, shape.kv_heads, shape.head_dim)));
    }
  }
}

TEST_P(Attention, WindowsAndRanges) {
  for (const CacheFormat& format : kEachCodec) {
    SCOPED_TRACE(format.name());
    TestCache cache(format, 2, 64, {600});
    cache.set_length(0, 600);
    for (int window : {0, 1, 2, 63, 64, 65, 100, 256, 257, 511}) {
      const Problem problem = make_problem(cache, 4, window);
      for (int position : {0, 1, 63, 64, 255, 256, 257, 320, 511, 512, 599}) {
        for (int from : {0, 1, 60, 64, 250, 256, 300, 511}) {
          if (from > position) continue;
          const std::vector<Row> rows = {{0, position, from, position + 1, position}};
          const std::string what = fmt::format("window {}, position {}, from {}", window, position, from);
          const std::vector<float> out = run_attention(table(), one_, problem, rows);
          ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, out, what));
          ASSERT_NO_FATAL_FAILURE(check_bits(run_attention(table(), two_, problem, rows), out, what));
        }
      }
    }
  }
}

// A chunk of a prompt, with whatever it is cut into.
TEST_P(Attention, PrefillInAnyCut) {
  for (const CacheFormat& format : kEachCodec) {
    SCOPED_TRACE(format.name());
    TestCache cache(format, 2, 64, {610});
    for (int window : {0, 100}) {
      const Problem problem = make_problem(cache, 6, window);
      for (int start : {0, 50, 230, 500}) {
        for (int count : {2, 3, 5, 7, 8, 9, 17, 37, 110}) {
          cache.set_length(0, start + count);
          std::vector<Row> rows;
          for (int i = 0; i < count; ++i) rows.push_back({0, start + i, 0, start + i + 1, start + i});
          const std::string what = fmt::format("window {}, {} rows from {}", window, count, start);
          ASSERT_NO_FATAL_FAILURE(check_step(problem, rows, what));
          const std::vector<float> whole = run_attention(table(), one_, problem, rows);
          std::vector<float> pieces;
          for (int begin = 0, size = 1; begin < count; begin += size, size = size * 2 + 1) {
            const auto end = rows.begin() + std::min(begin + size, count);
            const std::vector<float> piece =
                run_attention(table(), two_, problem, {rows.begin() + begin, end});
            pieces.insert(pieces.end(), piece.begin(), piece.end());
          }
          ASSERT_NO_FATAL_FAILURE(check_bits(pieces, whole, what + ", cut"));
        }
      }
    }
  }
}

// Decode rows of several sequences, prompt rows, rows that see arbitrary ranges, all in one step.
TEST_P(Attention, RaggedSteps) {
  for (const CacheFormat& format : kEachCodec) {
    SCOPED_TRACE(format.name());
    TestCache cache(format, 3, 64, {700, 40, 300, 1, 513});
    for (int s = 0; s < 5; ++s) cache.set_length(s, cache.capacity(s));
    std::mt19937 random(17);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    for (int round = 0; round < 30; ++round) {
      const Problem problem = make_problem(cache, 9, round % 3 == 0 ? 1 + below(400) : 0);
      std::vector<Row> rows;
      const int runs = 1 + below(6);
      for (int run = 0; run < runs; ++run) {
        const int sequence = below(5), length = cache.capacity(sequence);
        const int count = 1 + below(std::min(length, 20)), first = below(length - count + 1);
        const bool causal = below(2) == 0;
        for (int i = 0; i < count; ++i) {
          const int position = first + i,
                    to = causal ? position + 1 : position + 1 + below(length - position);
          rows.push_back({sequence, position, causal ? 0 : below(position + 1), to, below(64)});
        }
      }
      ASSERT_NO_FATAL_FAILURE(check_step(problem, rows, fmt::format("round {}", round)));
    }
  }
}

TEST_P(Attention, RowsThatSeeNothingGiveZeros) {
  TestCache cache({tensor::DType::bf16}, 1, 64, {300});
  cache.set_length(0, 300);
  const Problem problem = make_problem(cache, 2);
  const std::vector<Row> rows = {{0, 0, 0, 0, 0}, {0, 299, 0, 300, 1}, {0, 5, 7, 5, 2}};
  ASSERT_NO_FATAL_FAILURE(check_step(problem, rows, "empty rows"));
}

// Neighbours in a step that see positions far apart: the blocks in between may be gone.
TEST_P(Attention, ReleasedBlocks) {
  for (const CacheFormat& format : kEachCodec) {
    SCOPED_TRACE(format.name());
    TestCache cache(format, 2, 64, {700});
    cache.set_length(0, 700);
    for (int position = 64; position < 576; position += 64) cache.release_block(0, position);
    const Problem problem = make_problem(cache, 4);
    std::vector<Row> rows = {
        {0, 63, 0, 64, 1}, {0, 699, 576, 700, 2}, {0, 5, 3, 6, 3}, {0, 640, 600, 641, 4}};
    ASSERT_NO_FATAL_FAILURE(check_step(problem, rows, "released blocks"));
  }
}

// Scores far apart, and all far from zero: the maximum is subtracted before the exponential.
TEST_P(Attention, LargeScores) {
  TestCache cache({tensor::DType::f32}, 1, 64, {600});
  cache.set_length(0, 600);
  Problem problem = make_problem(cache, 2);
  problem.scale = 40.0f;
  for (int position : {0, 300, 599}) {
    const std::vector<Row> rows = {{0, position, 0, position + 1, position}};
    const std::vector<float> out = run_attention(table(), two_, problem, rows);
    ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, out, "large scores"));
  }
}

TEST_P(Attention, RowAttentionEqualsTheCache) {
  struct Shape {
    int32_t heads, kv_heads, head_dim;
  };
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{4, 4, 24}, Shape{11, 1, 80}, Shape{2, 1, 512}}) {
    TestCache cache({tensor::DType::f32}, shape.kv_heads, shape.head_dim, {270, 37});
    for (int s = 0; s < 2; ++s) cache.set_length(s, cache.capacity(s));
    for (int window : {0, 20}) {
      const Problem problem = make_problem(cache, shape.heads, window);
      std::vector<Row> rows;
      for (int s = 0; s < 2; ++s) {
        for (int i = 0; i < cache.capacity(s); ++i) rows.push_back({s, i, 0, i + 1, i});
      }
      std::shuffle(rows.begin(), rows.end(), std::mt19937(3));
      const std::vector<float> cached = run_attention(table(), one_, problem, rows);
      ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, cached, "cached"));
      for (TestTeam* team : {&one_, &four_}) {
        const std::vector<float> out = run_row_attention(table(), *team, problem, rows);
        ASSERT_NO_FATAL_FAILURE(check_bits(out, cached, "rows"));
      }
      const std::vector<float> reference = run_row_attention(reference_kernels(), one_, problem, rows);
      ASSERT_NO_FATAL_FAILURE(check_against_reference(problem, rows, reference, "the reference's rows"));
    }
  }
}

// A row sees the rows that are there: positions that no row holds don't count.
TEST_P(Attention, RowAttentionWithHoles) {
  TestCache cache({tensor::DType::f32}, 1, 64, {600});
  cache.set_length(0, 600);
  const Problem problem = make_problem(cache, 3);
  std::vector<Row> rows;
  for (int i = 0; i < 600; i += 1 + i % 5) rows.push_back({0, i, i > 100 ? 60 : 0, i + 1, i});
  std::vector<double> bounds;
  for (const Row& row : rows) bounds.push_back(attention_bound(problem, row));
  const std::vector<float> expected = run_row_attention(reference_kernels(), one_, problem, rows);
  const Verdict verdict =
      compare_values(run_row_attention(table(), two_, problem, rows), expected, problem.width(), bounds);
  ASSERT_TRUE(verdict.ok) << verdict.message;
}

}  // namespace
}  // namespace rafter::kernels::testing

// The kernel comparer catches what it exists for: each test plants one fault in otherwise right results. The
// faults are small ones: one position of many, one row past the end, one unit in the last place.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/attention_cases.h"

namespace rafter::kernels::testing {
namespace {

constexpr double kUlp = 0x1p-23;

class KernelComparer : public ::testing::Test {
 protected:
  TestTeam team_{1};
};

// ---- rope

struct RopeCase {
  int32_t rows = 5, heads = 2, head_dim = 64;
  std::vector<float> angles, x;

  RopeCase() : angles(rows * head_dim), x(random_values(rows * heads * head_dim, 1)) {
    for (int b = 0; b < rows; ++b) {
      for (int i = 0; i < head_dim / 2; ++i) {
        angles[b * head_dim + i] = std::cos(0.3f * b + i);
        angles[b * head_dim + head_dim / 2 + i] = std::sin(0.3f * b + i);
      }
    }
  }
  std::vector<float> run(TestTeam& team) const {
    std::vector<float> out(x.size());
    team.run(reference_kernels().rope, RopeArgs{&rows, heads, head_dim, head_dim, RopeLayout::half, 1.0f,
                                                angles.data(), x.data(), out.data()});
    return out;
  }
  double bound() const { return 3 * kUlp * 5; }
};

TEST_F(KernelComparer, AcceptsRopeInFloat) {
  const RopeCase good;
  std::vector<float> out(good.x.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t d = i % 64, b = i / 128, pair = d % 32;
    const float c = good.angles[b * 64 + pair], s = good.angles[b * 64 + 32 + pair];
    out[i] = d < 32 ? good.x[i] * c - good.x[i + 32] * s : good.x[i - 32] * s + good.x[i] * c;
  }
  EXPECT_TRUE(compare_values(out, good.run(team_), good.bound()).ok);
}

TEST_F(KernelComparer, CatchesAWrongSignInRope) {
  const RopeCase good;
  RopeCase faulty;
  for (size_t i = 0; i < faulty.angles.size(); ++i) {
    if (i % 64 >= 32) faulty.angles[i] = -faulty.angles[i];
  }
  EXPECT_FALSE(compare_values(faulty.run(team_), good.run(team_), good.bound()).ok);
}

TEST_F(KernelComparer, CatchesSwappedHalvesInRope) {
  const RopeCase good;
  std::vector<float> out = good.run(team_);
  for (int d = 0; d < 32; ++d) std::swap(out[d], out[32 + d]);  // the first head of the first row only
  EXPECT_FALSE(compare_values(out, good.run(team_), good.bound()).ok);
}

TEST_F(KernelComparer, CatchesANeighboursAngle) {
  const RopeCase good;
  RopeCase faulty;
  std::swap(faulty.angles[64 + 30], faulty.angles[64 + 31]);
  EXPECT_FALSE(compare_values(faulty.run(team_), good.run(team_), good.bound()).ok);
}

// ---- attention

class AttentionComparer : public KernelComparer {
 protected:
  AttentionComparer() : cache_({tensor::DType::bf16}, 2, 64, {700}) {
    cache_.set_length(0, 700);
    problem_ = make_problem(cache_, 6);
  }

  // Attention over the positions for which `seen` says so, in double; heads mapped by `kv_head_of`.
  template <typename Seen, typename KvHeadOf>
  std::vector<float> attend(const Row& row, const Seen& seen, const KvHeadOf& kv_head_of) const {
    std::vector<float> keys, values, out(6 * 64);
    for (int p = row.from; p < row.to; ++p) {
      if (seen(p)) cache_.copy_position(0, p, &keys, &values);
    }
    for (int h = 0; h < 6; ++h) {
      const float* q = problem_.queries.data() + row.query % 64 * problem_.width() + h * 64;
      std::vector<double> sums(64, 0.0);
      double total = 0;
      for (size_t at = kv_head_of(h) * 64; at < keys.size(); at += 128) {
        double dot = 0;
        for (int d = 0; d < 64; ++d) dot += double{q[d]} * keys[at + d];
        const double weight = std::exp(problem_.scale * dot);
        total += weight;
        for (int d = 0; d < 64; ++d) sums[d] += weight * values[at + d];
      }
      for (int d = 0; d < 64; ++d) out[h * 64 + d] = static_cast<float>(sums[d] / total);
    }
    return out;
  }

  bool accepts(const Row& row, const std::vector<float>& out) {
    const std::vector<float> expected = run_attention(reference_kernels(), team_, problem_, {row});
    return compare_values(out, expected, attention_bound(problem_, row)).ok;
  }

  static bool everything(int) { return true; }
  static int third(int h) { return h / 3; }

  TestCache cache_;
  Problem problem_;
};

TEST_F(AttentionComparer, AcceptsTheSameSumsInAnotherForm) {
  for (int length : {1, 64, 300, 700}) {
    const Row row = {0, length - 1, 0, length, 3};
    EXPECT_TRUE(accepts(row, attend(row, everything, third))) << length;
  }
}

TEST_F(AttentionComparer, CatchesOnePositionTooFew) {
  for (int length : {2, 64, 65, 256, 257, 700}) {
    const Row row = {0, length - 1, 0, length, 3};
    const auto without = [&](int missing) { return attend(row, [&](int p) { return p != missing; }, third); };
    EXPECT_FALSE(accepts(row, without(length - 1))) << "last of " << length;
    EXPECT_FALSE(accepts(row, without(0))) << "first of " << length;
    EXPECT_FALSE(accepts(row, without(length / 2))) << "middle of " << length;
  }
}

TEST_F(AttentionComparer, CatchesOnePositionTooMany) {
  for (int length : {1, 63, 255, 699}) {
    const Row row = {0, length - 1, 0, length, 3}, wider = {0, length - 1, 0, length + 1, 3};
    EXPECT_FALSE(accepts(row, attend(wider, everything, third))) << length;
  }
  const Row row = {0, 699, 100, 700, 3}, wider = {0, 699, 99, 700, 3};
  EXPECT_FALSE(accepts(row, attend(wider, everything, third)));
}

TEST_F(AttentionComparer, CatchesAnotherHeadsKeys) {
  const Row row = {0, 699, 0, 700, 3};
  EXPECT_FALSE(accepts(row, attend(row, everything, [](int h) { return h % 2; })));
}

TEST_F(AttentionComparer, CatchesASplitMergedWithoutItsMaximum) {
  // The second split's weights relative to its own maximum instead of the common one: as if one split counted
  // a hundredth more than it should.
  const Row row = {0, 299, 0, 300, 3}, first = {0, 299, 0, 256, 3}, second = {0, 299, 256, 300, 3};
  const std::vector<float> a = attend(first, everything, third), b = attend(second, everything, third);
  const std::vector<float> right = attend(row, everything, third);
  std::vector<float> out(right.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = right[i] + 0.01f * (b[i] - a[i]);
  EXPECT_FALSE(accepts(row, out));
}

// ---- the checks themselves

TEST_F(KernelComparer, CatchesWritesPastEitherEnd) {
  for (int where : {-1, -64, 10, 40}) {
    GuardedBuffer<float> buffer(10);
    EXPECT_EQ(buffer.damage(), "");
    buffer.data()[where] = 0.0f;
    EXPECT_NE(buffer.damage(), "") << where;
  }
}

TEST_F(KernelComparer, CatchesWritesPastTheScratch) {
  team_.set_scratch({64, 128});
  struct Args {
    int past;
  };
  const auto write = +[](const Args& args, Worker& worker) {
    std::memset(worker.scratch().data(), 1, worker.scratch().size() + args.past);
    std::memset(worker.shared().data(), 1, worker.shared().size());
  };
  team_.run(write, Args{0});
  EXPECT_EQ(team_.damage(), "");
  team_.run(write, Args{1});
  EXPECT_NE(team_.damage(), "");
}

TEST_F(KernelComparer, CatchesRowsWrittenPastTheLiveOnes) {
  GuardedBuffer<float> buffer(12);
  for (int i = 0; i < 8; ++i) buffer.data()[i] = 1.0f;
  EXPECT_TRUE(buffer.untouched(8, 12));
  buffer.data()[11] = 1.0f;
  EXPECT_FALSE(buffer.untouched(8, 12));
}

TEST_F(KernelComparer, CatchesValuesLeftUnwritten) {
  GuardedBuffer<float> buffer(8);
  const std::vector<float> expected(8, 1.0f);
  for (int i = 0; i < 7; ++i) buffer.data()[i] = 1.0f;
  EXPECT_FALSE(compare_values(buffer.span(), expected, 1e30).ok);
  EXPECT_FALSE(compare_bits(buffer.span(), expected).ok);
  buffer.data()[7] = 1.0f;
  EXPECT_TRUE(compare_bits(buffer.span(), expected).ok);
}

TEST_F(KernelComparer, CatchesValuesThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> good = {1.0f, 2.0f};
  for (float bad : {nan, -nan, infinity, -infinity}) {
    EXPECT_FALSE(compare_values(std::vector{1.0f, bad}, good, 1e30).ok);
    EXPECT_FALSE(compare_values(good, std::vector{bad, 2.0f}, 1e30).ok);
    EXPECT_FALSE(compare_values(std::vector{bad, 1.0f}, std::vector{bad, 1.0f}, 1e30).ok);
  }
  EXPECT_FALSE(compare_values(std::vector{1.0f, 2.5f}, good, nan).ok);  // a bound that is none
}

TEST_F(KernelComparer, CatchesDifferencesOfEitherSign) {
  const std::vector<float> good = {1.0f, -1.0f};
  EXPECT_FALSE(compare_values(std::vector{0.9f, -1.0f}, good, 0.01).ok);
  EXPECT_FALSE(compare_values(std::vector{1.1f, -1.0f}, good, 0.01).ok);
  EXPECT_FALSE(compare_values(std::vector{1.0f, 1.0f}, good, 0.01).ok);
  EXPECT_TRUE(compare_values(std::vector{1.005f, -1.005f}, good, 0.01).ok);
}

TEST_F(KernelComparer, HoldsEachRowToItsOwnBound) {
  const std::vector<float> good = {100.0f, 100.0f, 0.01f, 0.01f}, bad = {100.0f, 100.0f, 0.01f, 0.011f};
  const double bounds[] = {1e-3, 1e-7};
  EXPECT_TRUE(compare_values(good, good, 2, bounds).ok);
  EXPECT_FALSE(compare_values(bad, good, 2, bounds).ok);
}

TEST_F(KernelComparer, CatchesADifferentLength) {
  EXPECT_FALSE(compare_values(std::vector{1.0f}, std::vector{1.0f, 2.0f}, 1e30).ok);
}

TEST_F(KernelComparer, CatchesOneUnitInTheLastPlace) {
  const std::vector<float> good = {1.0f, 0.0f};
  EXPECT_FALSE(compare_bits(std::vector{std::nextafter(1.0f, 2.0f), 0.0f}, good).ok);
  EXPECT_FALSE(compare_bits(std::vector{1.0f, -0.0f}, good).ok);
  EXPECT_TRUE(compare_bits(good, good).ok);
}

}  // namespace
}  // namespace rafter::kernels::testing

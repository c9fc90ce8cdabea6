// The delta-net kernels of every tier against the reference: remainders, thread counts, sequences alone and
// in company, any cut of a sequence into steps.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {
namespace {

// The states of three sequences, between guards; nothing is set that a kernel must not rely on.
struct States {
  explicit States(const RecurrentShape& shape) : memory(3 * shape.slot_floats()) {
    layer = {shape, memory.data(), shape.slot_floats()};
  }
  GuardedBuffer<float> memory;
  RecurrentLayer layer;
};

// One step: how many rows each of the three sequences has in it.
using Step = std::array<int, 3>;

struct Outputs {
  std::vector<float> q, k, v, delta;  // rows of sequence 0, then 1, then 2, each in order
};

// Runs both stateful ops over the steps, rows of different sequences interleaved. `x` [3][64][C] are the
// convolution's inputs, `gates` [3][64][2 M].
Outputs run_steps(const KernelTable& table, TestTeam& team, const RecurrentShape& shape,
                  const std::vector<Step>& steps, const std::vector<float>& weight,
                  const std::vector<float>& x, const std::vector<float>& gates) {
  States states(shape);
  if (table.gated_delta_scratch != nullptr)
    team.set_scratch(table.gated_delta_scratch({nullptr, states.layer}));
  std::array<Outputs, 3> by_sequence;
  int length[3] = {}, pending[3] = {}, journal[3] = {};
  const int64_t c = shape.channels(), kw = shape.key_width(), vw = shape.value_width(),
                g = 2 * shape.value_heads;
  for (const Step& step : steps) {
    std::vector<RecurrentRun> runs;
    std::vector<int32_t> rows;
    std::vector<std::pair<int, int>> source;  // of each row of the step: sequence, position
    for (int i = 0; i < 64; ++i) {            // one row of each in turn
      for (int s = 0; s < 3; ++s) {
        if (i < step[s]) source.emplace_back(s, length[s] + i);
      }
    }
    for (int s = 0; s < 3; ++s) {
      if (step[s] == 0) continue;
      runs.push_back({s, length[s], static_cast<int32_t>(rows.size()), step[s], pending[s], journal[s]});
      for (size_t b = 0; b < source.size(); ++b) {
        if (source[b].first == s) rows.push_back(static_cast<int32_t>(b));
      }
    }
    const auto count = static_cast<int64_t>(source.size());
    std::vector<float> step_x, step_gates;
    for (const auto& [s, p] : source) {
      const auto at = static_cast<int64_t>(s * 64 + p);
      step_x.insert(step_x.end(), x.begin() + at * c, x.begin() + (at + 1) * c);
      step_gates.insert(step_gates.end(), gates.begin() + at * g, gates.begin() + (at + 1) * g);
    }
    const RecurrentInput input = {static_cast<int32_t>(runs.size()), runs.data(), rows.data()};
    GuardedBuffer<float> q(count * kw), k(count * kw), v(count * vw), out(count * vw);
    team.run(table.short_convolution, ShortConvolutionArgs{&input, states.layer, weight.data(), step_x.data(),
                                                           q.data(), k.data(), v.data()});
    team.run(table.gated_delta, GatedDeltaArgs{&input, states.layer, q.data(), k.data(), v.data(),
                                               step_gates.data(), out.data()});
    for (const auto* buffer : {&q, &k, &v, &out}) EXPECT_EQ(buffer->damage(), "");
    EXPECT_EQ(states.memory.damage(), "");
    EXPECT_EQ(team.damage(), "");
    for (size_t b = 0; b < source.size(); ++b) {
      Outputs& to = by_sequence[static_cast<size_t>(source[b].first)];
      const auto append = [&](std::vector<float>& all, const GuardedBuffer<float>& from, int64_t width) {
        all.insert(all.end(), from.data() + b * width, from.data() + (b + 1) * width);
      };
      append(to.q, q, kw), append(to.k, k, kw), append(to.v, v, vw), append(to.delta, out, vw);
    }
    for (int s = 0; s < 3; ++s) {
      if (step[s] == 0) continue;
      length[s] += step[s];
      pending[s] = std::min(step[s], kReplayRows);
      journal[s] = 1 - journal[s];
    }
  }
  Outputs all;
  for (const Outputs& one : by_sequence) {
    all.q.insert(all.q.end(), one.q.begin(), one.q.end());
    all.k.insert(all.k.end(), one.k.begin(), one.k.end());
    all.v.insert(all.v.end(), one.v.begin(), one.v.end());
    all.delta.insert(all.delta.end(), one.delta.begin(), one.delta.end());
  }
  return all;
}

class DeltaNetKernels : public ::testing::TestWithParam<base::CpuTier> {
 protected:
  const KernelTable& table() const { return cpu_kernels(GetParam()); }
  TestTeam one_{1}, two_{2}, four_{4};
};

INSTANTIATE_TEST_SUITE_P(Tiers, DeltaNetKernels, ::testing::ValuesIn(base::supported_tiers()),
                         [](const auto& tier) { return base::cpu_tier_name(tier.param); });

const RecurrentShape kShapes[] = {{2, 4, 32, 32, 4, false},
                                  {2, 4, 32, 32, 4, true},
                                  {1, 3, 7, 5, 2, false},
                                  {2, 2, 33, 20, 3, false},
                                  {2, 6, 128, 128, 4, false}};

TEST_P(DeltaNetKernels, AnyCutAndCompanyGivesTheSameBitsAndTheReferencesValues) {
  // Each sequence gets 50 rows.
  std::vector<Step> whole = {{50, 0, 0}, {0, 50, 0}, {0, 0, 50}}, one_by_one, together = {{50, 50, 50}};
  for (int i = 0; i < 50; ++i) one_by_one.push_back({1, 1, 1});
  const std::vector<Step> ragged = {{3, 17, 0}, {1, 1, 40}, {16, 0, 1}, {0, 31, 2}, {29, 1, 7}, {1, 0, 0}};
  for (const RecurrentShape& shape : kShapes) {
    const int64_t c = shape.channels();
    const std::vector<float> weight = random_values(shape.taps * c, 1, 0.5f),
                             x = random_values(3 * 64 * c, 2, 0.5f);
    std::vector<float> gates = random_values(3 * 64 * 2 * shape.value_heads, 3);
    for (float& gate : gates) gate = 1.0f / (1.0f + std::exp(-gate));
    // Keys of unit length keep the recurrence from growing; here they are small enough as they are.
    const auto run = [&](const KernelTable& kernels, TestTeam& team, const std::vector<Step>& steps) {
      return run_steps(kernels, team, shape, steps, weight, x, gates);
    };
    const Outputs expected = run(reference_kernels(), one_, whole), actual = run(table(), one_, whole);
    for (const auto& [ours, theirs] : {std::pair{&actual.q, &expected.q},
                                       {&actual.k, &expected.k},
                                       {&actual.v, &expected.v},
                                       {&actual.delta, &expected.delta}}) {
      double largest = 0;
      for (float value : *theirs) largest = std::max(largest, std::abs(double{value}));
      const Verdict verdict = compare_values(*ours, *theirs, 2e-5 * largest);
      ASSERT_TRUE(verdict.ok) << verdict.message << " (key dim " << shape.key_dim << ")";
    }
    for (const std::vector<Step>& steps : {one_by_one, together, ragged}) {
      const Outputs cut = run(table(), steps.size() % 2 == 0 ? two_ : four_, steps);
      ASSERT_TRUE(compare_bits(cut.q, actual.q).ok && compare_bits(cut.v, actual.v).ok);
      const Verdict same = compare_bits(cut.delta, actual.delta);
      ASSERT_TRUE(same.ok) << same.message << " (" << steps.size() << " steps, key dim " << shape.key_dim
                           << ")";
    }
  }
}

TEST_P(DeltaNetKernels, WithoutStateEveryRunStartsFromZero) {
  const RecurrentShape shape = {2, 4, 24, 20, 4, false};
  const RecurrentLayer none = {shape};
  const int32_t rows[] = {0, 2, 4, 1, 3};
  const RecurrentRun runs[] = {{0, 0, 0, 3, 0, 0}, {1, 0, 3, 2, 0, 0}};
  const RecurrentInput input = {2, runs, rows};
  const std::vector<float> q = random_values(5 * shape.key_width(), 1, 0.2f),
                           k = random_values(5 * shape.key_width(), 2, 0.2f),
                           v = random_values(5 * shape.value_width(), 3);
  const std::vector<float> gates(5 * 2 * shape.value_heads, 0.7f);
  std::vector<float> expected(v.size()), actual(v.size());
  one_.run(reference_kernels().gated_delta,
           GatedDeltaArgs{&input, none, q.data(), k.data(), v.data(), gates.data(), expected.data()});
  two_.set_scratch(table().gated_delta_scratch({nullptr, none}));
  two_.run(table().gated_delta,
           GatedDeltaArgs{&input, none, q.data(), k.data(), v.data(), gates.data(), actual.data()});
  EXPECT_TRUE(compare_values(actual, expected, 1e-5).ok);
  EXPECT_EQ(two_.damage(), "");
}

// The row-wise ops: against the reference at remainders, the same bits for other teams and for a row alone.
TEST_P(DeltaNetKernels, RowWiseOps) {
  for (int64_t width : {1, 5, 16, 48, 67, 128}) {
    const int32_t groups = 3, rows = 7;
    const int64_t total = groups * width;
    const std::vector<float> x = random_values(rows * 2 * total, 1, 2),
                             gate = random_values(rows * total, 2, 3), weight = random_values(width, 3);
    using Run = std::function<void(const KernelTable&, TestTeam&, const int32_t*, int64_t first, float* out)>;
    const Run ops[] = {
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          team.run(t.l2_norm, L2NormArgs{count, groups, width, 1e-6f, 0.3f, x.data() + first * total, out});
        },
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          team.run(t.gated_rms_norm,
                   GatedRmsNormArgs{count, groups, width, 1e-6f, weight.data(), x.data() + first * total,
                                    gate.data() + first * total, out});
        },
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          team.run(t.sigmoid_gate,
                   SigmoidGateArgs{count, total, x.data() + first * total, gate.data() + first * total, out});
        },
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          team.run(t.sigmoid_gate,
                   SigmoidGateArgs{count, total, x.data() + first * total, gate.data() + first, out, true});
        },
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          std::vector<float> gates(static_cast<size_t>(*count * total));
          team.run(t.split_gate,
                   SplitGateArgs{count, groups, width, x.data() + first * 2 * total, out, gates.data()});
          for (size_t i = 0; i < gates.size(); ++i) out[i] += 2 * gates[i];
        },
        [&](const KernelTable& t, TestTeam& team, const int32_t* count, int64_t first, float* out) {
          if (total % 2 != 0) return std::fill(out, out + *count * total, 0.0f);
          const auto heads = static_cast<int32_t>(total / 2);
          std::vector<float> rate(heads, -0.8f), bias(heads, 0.3f);
          team.run(t.delta_gates, DeltaGatesArgs{count, heads, rate.data(), bias.data(),
                                                 x.data() + first * heads, gate.data() + first * heads, out});
        },
    };
    for (const Run& op : ops) {
      GuardedBuffer<float> expected(rows * total), actual(rows * total), other(rows * total);
      op(reference_kernels(), one_, &rows, 0, expected.data());
      op(table(), one_, &rows, 0, actual.data());
      op(table(), four_, &rows, 0, other.data());
      EXPECT_EQ(actual.damage(), "");
      const Verdict verdict =
          compare_values(actual.span(), expected.span(), 2e-6 * (1 + l2_norm(expected.span())));
      ASSERT_TRUE(verdict.ok) << verdict.message << " width " << width;
      ASSERT_TRUE(compare_bits(other.span(), actual.span()).ok);
      const int32_t single = 1;
      for (int64_t row : {0, 4}) {
        std::vector<float> alone(static_cast<size_t>(total));
        op(table(), two_, &single, row, alone.data());
        ASSERT_TRUE(compare_bits(alone, actual.span().subspan(row * total, total)).ok);
      }
    }
  }
}

}  // namespace
}  // namespace rafter::kernels::testing

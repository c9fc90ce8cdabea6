// Faults of recurrent state that the tests' comparison of outputs must see.
#include <functional>

#include <gtest/gtest.h>

#include "kernels/ref/reference_kernels.h"
#include "tests/kernels/kernel_compare.h"
#include "tests/kernels/test_data.h"
#include "tests/kernels/test_team.h"

namespace rafter::kernels::testing {
namespace {

constexpr RecurrentShape kShape = {2, 4, 16, 20, 4, false};

// Two steps of 5 rows each, the description of the second altered by `fault`; both ops' outputs.
std::vector<float> second_step(const std::function<void(RecurrentRun&)>& fault) {
  TestTeam team(1);
  std::vector<float> memory(static_cast<size_t>(kShape.slot_floats()));
  const RecurrentLayer layer = {kShape, memory.data(), kShape.slot_floats()};
  const int32_t rows[] = {0, 1, 2, 3, 4};
  const std::vector<float> weight = random_values(kShape.taps * kShape.channels(), 1, 0.5f);
  const std::vector<float> gates(5 * 2 * kShape.value_heads, 0.8f);
  std::vector<float> q(5 * kShape.key_width()), k(q), v(5 * kShape.value_width()), out(v);
  for (int step = 0; step < 2; ++step) {
    RecurrentRun run = {0, step * 5, 0, 5, step * 5, step};
    if (step == 1) fault(run);
    const RecurrentInput input = {1, &run, rows};
    const std::vector<float> x = random_values(5 * kShape.channels(), 7 + static_cast<uint32_t>(step), 0.5f);
    team.run(reference_kernels().short_convolution,
             ShortConvolutionArgs{&input, layer, weight.data(), x.data(), q.data(), k.data(), v.data()});
    team.run(reference_kernels().gated_delta,
             GatedDeltaArgs{&input, layer, q.data(), k.data(), v.data(), gates.data(), out.data()});
  }
  q.insert(q.end(), out.begin(), out.end());
  return q;
}

TEST(DeltaNetMutants, FaultsOfStateAreSeen) {
  const std::vector<float> right = second_step([](RecurrentRun&) {});
  ASSERT_TRUE(compare_bits(second_step([](RecurrentRun&) {}), right).ok);
  const std::pair<const char*, std::function<void(RecurrentRun&)>> faults[] = {
      {"a new sequence's state is not reset, or an old one's is",
       [](RecurrentRun& run) { run.position = 0; }},
      {"the convolution's state is off by one", [](RecurrentRun& run) { run.position += 1; }},
      {"a rejected row is committed, or an accepted one is not", [](RecurrentRun& run) { run.pending -= 1; }},
      {"the pending rows of the step before the last are applied",
       [](RecurrentRun& run) { run.journal = 0; }}};
  for (const auto& [name, fault] : faults)
    EXPECT_FALSE(compare_values(second_step(fault), right, 1e-4).ok) << name;
}

}  // namespace
}  // namespace rafter::kernels::testing

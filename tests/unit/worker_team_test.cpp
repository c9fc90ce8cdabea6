#include "base/worker_team.h"

#include <numeric>

#include <gtest/gtest.h>

namespace rafter::base {
namespace {

class WorkerTeamTest : public ::testing::TestWithParam<int> {};

// Each worker adds its neighbour's value of the round before: wrong if a barrier lets anyone through early.
TEST_P(WorkerTeamTest, BarriersOrderRounds) {
  const int size = GetParam();
  WorkerTeam team(size);
  for (int run = 0; run < 20; ++run) {
    std::vector<uint64_t> even(size, 1), odd(size, 0);
    team.run_blocking([&](int me) {
      for (int round = 0; round < 50; ++round) {
        const auto& from = round % 2 == 0 ? even : odd;
        auto& to = round % 2 == 0 ? odd : even;
        to[me] = (from[me] + from[(me + 1) % size]) % 1000003;
        team.barrier();
      }
    });
    uint64_t expected = 1;
    for (int round = 0; round < 50; ++round) expected = expected * 2 % 1000003;
    for (int me = 0; me < size; ++me) ASSERT_EQ(even[me], expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorkerTeamTest, ::testing::Values(1, 2, 4, 7));

}  // namespace
}  // namespace rafter::base

// Where one step's time went: what every worker did in every op of the plan, and how long it waited before.
#pragma once

#include <cstdint>
#include <vector>

namespace rafter::engine {

struct StepProfile {
  // Nanoseconds since the parallel region was asked for.
  struct Span {
    int64_t arrived = 0;  // at the op, before its barrier if it has one
    int64_t begin = 0;    // past the barrier
    int64_t end = 0;
  };
  int workers = 0;
  int ops = 0;
  std::vector<Span> spans;  // [workers, ops]
  int64_t region_ns = 0;    // the region as its caller saw it

  const Span& span(int worker, int op) const { return spans[static_cast<size_t>(worker * ops + op)]; }
};

// What a step took: preparing its input, and running the plan.
struct StepTimes {
  int64_t host_ns = 0;
  int64_t compute_ns = 0;
};

}  // namespace rafter::engine

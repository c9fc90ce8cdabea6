// Clients by the dozen against a running server: streams of every protocol, some cancelled at random, bodies
// that are malformed, readers that are slow, connections that say nothing; and what came of it all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/load_report.h"

namespace rafter::testing {

struct LoadPlan {
  uint16_t port = 0;
  pid_t front = -1, worker = -1;  // whose memory is watched
  double seconds = 20;
  int streams = 64, slow_readers = 4, malformed = 4;  // at any time
  int idle = 1000;
  unsigned seed = 1;
};

// Runs the plan. The generator's thread has niceness 10; the one that asks for /health and reads the
// processes' memory has not. Blocks for the plan's seconds and what it takes to end.
LoadReport run_load_blocking(const LoadPlan& plan);

}  // namespace rafter::testing

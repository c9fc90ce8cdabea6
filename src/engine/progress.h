// How far the engines of this process have come, for whoever watches that a step of minutes is not a stuck
// one.
#pragma once

#include <cstdint>

namespace rafter::engine {

// Ops that host executors have run so far, also within a step. Safe on any thread.
uint64_t ops_done();

}  // namespace rafter::engine

// Engines over the oracle's checkpoints, and ways to feed them.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "tests/models/oracle_data.h"

namespace rafter::testing {

std::unique_ptr<engine::Engine> open_engine(const std::string& path, engine::EngineOptions options);

// Feeds tokens[begin, end) to the sequence in steps of at most `chunk` rows, every row wanting logits, and
// appends each row's logits to `logits`.
void feed(engine::Engine& engine, int32_t sequence, std::span<const int32_t> tokens, int64_t begin,
          int64_t end, int64_t chunk, std::vector<float>* logits);

// Sets RAFTER_ISA for the tests' life of this object.
class ForcedTier {
 public:
  explicit ForcedTier(const char* tier) { setenv("RAFTER_ISA", tier, 1); }
  ~ForcedTier() { unsetenv("RAFTER_ISA"); }
};

}  // namespace rafter::testing

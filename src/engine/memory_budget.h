// How much of a budget, or of the machine, is left for the cache.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace rafter::engine {

struct MemoryNeed {
  int64_t weights = 0;  // bytes of the checkpoint, mapped or uploaded
  int64_t scratch = 0;  // activations of the largest step
};

// Activations of a step of `rows` rows of a model of this width, and the logits of `wanted` of them: what a
// dense layer keeps at once is some 32 values per row and column (hidden states, queries, keys, values, both
// halves of a gated feed-forward of four times the width).
int64_t scratch_bytes(int64_t rows, int64_t width, int64_t wanted, int64_t vocabulary);

// Bytes for the cache. With a budget: what it leaves; an error (out_of_memory, with the numbers) if that is
// nothing. Without (0): three quarters of the machine's memory or of the cgroup's limit, and no more than is
// available, less what the model needs; a model that is larger than that is read from disk as it runs, and
// gets a small cache.
base::Result<int64_t> cache_budget(const MemoryNeed& need, int64_t budget);

}  // namespace rafter::engine

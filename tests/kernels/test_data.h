// Random inputs and a small KV cache for kernel tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/op/kv_cache.h"

namespace rafter::kernels::testing {

inline std::vector<float> random_values(size_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// The rows of a step, owned; input() points into it.
struct StepRows {
  std::vector<int32_t> tokens, positions, sequences, visible_from, visible_to, wanted, block_tables;
  int64_t block_table_stride = 0;

  void add(int32_t sequence, int32_t position, int32_t from, int32_t to, int32_t token = 0) {
    tokens.push_back(token);
    positions.push_back(position);
    sequences.push_back(sequence);
    visible_from.push_back(from);
    visible_to.push_back(to);
  }

  StepInput input() const {
    StepInput input;
    input.rows = static_cast<int32_t>(positions.size());
    input.wanted_rows = static_cast<int32_t>(wanted.size());
    input.tokens = tokens.data();
    input.positions = positions.data();
    input.sequences = sequences.data();
    input.visible_from = visible_from.data();
    input.visible_to = visible_to.data();
    input.wanted = wanted.data();
    input.block_tables = block_tables.data();
    input.block_table_stride = block_table_stride;
    return input;
  }
};

}  // namespace rafter::kernels::testing

// Sequences of an engine at a given length, for measuring one step of them again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace rafter::lab {

class Sequences {
 public:
  // `engine` must outlive it and have room for count × (length + 1) positions.
  Sequences(engine::Engine& engine, int count) : engine_(engine), count_(count) {}
  ~Sequences();
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  // Real steps until every sequence holds `length` positions; they never get shorter. Errors: the engine's.
  base::Status grow_to(int64_t length);
  // One step with a row of every sequence; they stand at their length again afterwards.
  base::Status step();

 private:
  int32_t token(size_t sequence, int64_t position) const;

  engine::Engine& engine_;
  int count_;
  int64_t length_ = 0;
  std::vector<int32_t> sequences_;
  std::vector<engine::Row> rows_;
};

}  // namespace rafter::lab

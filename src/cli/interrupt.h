// Ctrl-C as a flag: long work looks at it between steps and ends in order.
#pragma once

#include <atomic>

#include "base/result.h"

namespace rafter::cli {

// Catches SIGINT while it lives (one at a time). Reads that wait are interrupted, not restarted.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  bool raised() const;
  void clear();
  const std::atomic<bool>& flag() const;

  // Error (interrupted) once it was raised.
  base::Status check() const;
};

}  // namespace rafter::cli

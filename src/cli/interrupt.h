// Ctrl-C as a flag: long work looks at it between steps and ends in order.
#pragma once

#include <atomic>

#include <sys/types.h>

#include "base/result.h"

namespace rafter::cli {

// Catches SIGINT while it lives (one at a time).
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  bool raised() const;
  void clear();
  void raise();  // as a Ctrl-C would: ends the work when there is nobody to read its output
  const std::atomic<bool>& flag() const;

  // Error (interrupted) once it was raised.
  base::Status check() const;

  // read(2) that a Ctrl-C ends, also one that came just before: then −1 with errno EINTR and raised().
  ssize_t read_blocking(int descriptor, void* buffer, size_t size) const;
};

}  // namespace rafter::cli

// Whether something else was running while a measurement was taken: a figure from a busy machine is marked.
#pragma once

#include <cstdint>

namespace rafter::lab {

// Watches from its construction on.
class MachineLoad {
 public:
  MachineLoad();

  struct Report {
    double load_before = 0;     // runnable tasks, the system's average over a minute, at construction
    double others_percent = 0;  // of all cores' time since then: other processes and the hypervisor
    bool busy = false;          // others took more than 5 %
  };
  Report report() const;

 private:
  struct Ticks {
    int64_t all = 0, idle = 0, ours = 0;  // of every core, in the system's clock ticks
  };
  static Ticks now();

  Ticks start_;
  double load_before_ = 0;
};

}  // namespace rafter::lab

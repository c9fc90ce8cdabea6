// How many prompt rows a step may take, so that streams that share it do not stall: what rows cost is
// measured step by step.
#pragma once

#include <cstdint>

namespace rafter::sched {

class StepBudget {
 public:
  // `stream_gap`: seconds that may pass between two tokens of a stream while prompts are computed; a gap of
  // four decode steps is allowed in any case.
  explicit StepBudget(double stream_gap) : stream_gap_(stream_gap) {}

  // Prompt rows for a step with this many decode rows; at least 1, at most `most`.
  int64_t prompt_rows(int64_t decode_rows, int64_t most) const;

  // What a step took, in seconds.
  void record(int64_t prompt_rows, double seconds);

  double decode_seconds() const { return decode_seconds_; }  // of a step without prompt rows

 private:
  double stream_gap_;
  double decode_seconds_ = 0;   // 0: not known yet
  double seconds_per_row_ = 0;  // of a prompt; 0: not known yet
};

}  // namespace rafter::sched

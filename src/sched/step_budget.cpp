#include "sched/step_budget.h"

#include <algorithm>

namespace rafter::sched {
namespace {

// Rows of the first step beside a stream, when nothing was measured.
constexpr int64_t kFirstRows = 16;
// Steps with fewer say little about what a row costs at most.
constexpr int64_t kTellingRows = 8;
// Of the gap, what is used: steps differ.
constexpr double kUsedShare = 0.6;
constexpr double kDecodeStepsPerGap = 4;
// Nobody waits for a token then, but for a cancellation and for other prompts to be let in.
constexpr double kSecondsAlone = 2;
// A new, lower figure counts so much: one slow step is remembered, one quick step is not trusted.
constexpr double kEase = 0.2;

double eased(double known, double measured) {
  return known == 0 || measured > known ? measured : known + kEase * (measured - known);
}

}  // namespace

int64_t StepBudget::prompt_rows(int64_t decode_rows, int64_t most) const {
  if (seconds_per_row_ == 0) return decode_rows == 0 ? most : std::min(most, kFirstRows);
  double seconds = kSecondsAlone;
  if (decode_rows > 0) {
    const double gap = std::max(stream_gap_, kDecodeStepsPerGap * decode_seconds_);
    seconds = kUsedShare * gap - decode_seconds_;
  }
  const double rows = std::max(1.0, seconds / seconds_per_row_);
  return rows < static_cast<double>(most) ? static_cast<int64_t>(rows) : most;
}

void StepBudget::record(int64_t prompt_rows, double seconds) {
  if (prompt_rows == 0) {
    decode_seconds_ = decode_seconds_ == 0 ? seconds : decode_seconds_ + kEase * (seconds - decode_seconds_);
    return;
  }
  // Without decode rows too, a step reads all weights once: what a row adds to that is wanted.
  const double beside = std::min(decode_seconds_, seconds / 2);
  const double per_row = (seconds - beside) / static_cast<double>(prompt_rows);
  if (prompt_rows < kTellingRows && per_row > seconds_per_row_ && seconds_per_row_ != 0) return;
  seconds_per_row_ = eased(seconds_per_row_, per_row);
}

}  // namespace rafter::sched

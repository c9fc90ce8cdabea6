// A progress bar on standard error, for work longer than a second, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rafter::cli {

// "1.5 GB", "640 MB", "12 kB"; powers of ten.
std::string format_bytes(int64_t bytes);

class ProgressBar {
 public:
  // `total` bytes of work.
  ProgressBar(std::string label, int64_t total);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(int64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(Clock::time_point now);

  std::string label_;
  int64_t total_, done_ = 0;
  bool on_terminal_, drawn_ = false;
  Clock::time_point start_, last_;
};

}  // namespace rafter::cli

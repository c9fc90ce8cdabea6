#include "cli/progress_bar.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace rafter::cli {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);  // shorter work shows nothing
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kWidth = 24;

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) value /= 1000, ++unit;
  return unit == 0 || value >= 99.95 ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                     : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

ProgressBar::ProgressBar(std::string label, int64_t total)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total, 1)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::advance(int64_t bytes) {
  done_ += bytes;
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < kQuiet || now - last_ < kInterval) return;
  last_ = now;
  draw(now);
}

void ProgressBar::draw(Clock::time_point now) {
  const double part = std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<size_t>(part * kWidth);
  const double left = part > 0 ? seconds * (1 - part) / part : 0;
  const std::string line = fmt::format(
      "\r{} [{}{}] {:3.0f} %  {} of {}  {}/s  {:.0f} s left\x1b[K", label_, std::string(filled, '='),
      std::string(kWidth - filled, ' '), part * 100, format_bytes(done_), format_bytes(total_),
      format_bytes(static_cast<int64_t>(static_cast<double>(done_) / seconds)), left);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace rafter::cli

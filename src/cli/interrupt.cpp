#include "cli/interrupt.h"

#include <csignal>

namespace rafter::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");
struct sigaction previous_action;

void handle_interrupt(int) { interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

InterruptFlag::InterruptFlag() {
  clear();
  struct sigaction action{};
  action.sa_handler = handle_interrupt;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_action);
}

InterruptFlag::~InterruptFlag() { ::sigaction(SIGINT, &previous_action, nullptr); }

bool InterruptFlag::raised() const { return interrupted.load(std::memory_order_relaxed); }
void InterruptFlag::clear() { interrupted.store(false, std::memory_order_relaxed); }
const std::atomic<bool>& InterruptFlag::flag() const { return interrupted; }

base::Status InterruptFlag::check() const {
  if (!raised()) return {};
  return base::Error{base::ErrorCode::interrupted, "interrupted", "", ""};
}

}  // namespace rafter::cli

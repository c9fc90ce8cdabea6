#include "cli/interrupt.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <unistd.h>

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
void InterruptFlag::raise() { interrupted.store(true, std::memory_order_relaxed); }
const std::atomic<bool>& InterruptFlag::flag() const { return interrupted; }

base::Status InterruptFlag::check() const {
  if (!raised()) return {};
  return base::Error{base::ErrorCode::interrupted, "interrupted", "", ""};
}

ssize_t InterruptFlag::read_blocking(int descriptor, void* buffer, size_t size) const {
  // A plain read() would miss a signal that arrives between looking at the flag and going to sleep. SIGINT is
  // held back except while ppoll sleeps.
  sigset_t only_interrupt, old_mask;
  ::sigemptyset(&only_interrupt);
  ::sigaddset(&only_interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &only_interrupt, &old_mask);
  ssize_t count = -1;
  while (!raised()) {
    pollfd ready{descriptor, POLLIN, 0};
    if (::ppoll(&ready, 1, nullptr, &old_mask) < 0 && errno == EINTR) continue;
    count = ::read(descriptor, buffer, size);
    if (count >= 0 || (errno != EINTR && errno != EAGAIN)) break;
  }
  const int read_error = raised() && count < 0 ? EINTR : errno;
  ::pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
  errno = read_error;
  return count;
}

}  // namespace rafter::cli

#include "base/truncation_guard.h"

#include <array>
#include <atomic>
#include <cstdint>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rafter::base {
namespace {

// The handler may run on any thread at any time: a fixed table of atomics, no locks, no allocation.
struct Watch {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};  // end is set last and cleared first
  std::atomic<bool> cut{false};
};
std::array<Watch, 4096> watches;
uintptr_t page_bytes = 4096;
struct sigaction previous_action;

// Zero pages over the rest of the mapping: everything behind the first lost page is lost as well, and one
// replacement keeps the number of mappings small.
bool replace_lost_pages(uintptr_t address) {
  for (Watch& watch : watches) {
    const uintptr_t end = watch.end.load(std::memory_order_acquire);
    if (address >= end || address < watch.begin.load(std::memory_order_relaxed)) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) return false;
    watch.cut.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  if (info->si_code == BUS_ADRERR && replace_lost_pages(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    ::signal(SIGBUS, SIG_DFL);                // the faulting instruction runs again and ends the process
    if (info->si_code <= 0) ::raise(SIGBUS);  // a signal that was sent has no such instruction
  }
}

}  // namespace

void install_truncation_guard() {
  static const bool installed = [] {
    page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &previous_action) == 0;
  }();
  (void)installed;
}

int watch_mapping(const void* begin, size_t bytes) {
  for (size_t i = 0; i < watches.size(); ++i) {
    Watch& watch = watches[i];
    bool expected = false;
    if (!watch.taken.compare_exchange_strong(expected, true)) continue;
    watch.cut = false;
    watch.begin = reinterpret_cast<uintptr_t>(begin);
    watch.end.store(reinterpret_cast<uintptr_t>(begin) + bytes, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void unwatch_mapping(int watch) {
  if (watch < 0) return;
  watches[static_cast<size_t>(watch)].end = 0;
  watches[static_cast<size_t>(watch)].taken = false;
}

bool mapping_was_cut(int watch) { return watch >= 0 && watches[static_cast<size_t>(watch)].cut; }

}  // namespace rafter::base

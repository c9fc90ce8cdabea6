#include "base/worker_team.h"

#include <system_error>

#include "base/check.h"
#include "base/cpu_info.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rafter::base {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// A wait spins for about a millisecond and then sleeps. On an idle machine the others are some ten
// microseconds behind and nothing else would use the core. With other programs competing for the cores,
// giving the core up early loses it for a scheduler's slice at each of a step's hundred barriers: decoding
// with two workers beside two compilers ran at 0.3 of this rate with 2,000 spins or 6,000, and at 0.3 with
// 2,000 and then yields.
constexpr int kSpins = 20000;

}  // namespace

WorkerTeam::WorkerTeam(int threads) : size_(threads), spins_(threads <= usable_cores() ? kSpins : 0) {
  RAFTER_CHECK(threads >= 1, "{} threads", threads);
  try {
    for (int index = 1; index < size_; ++index) threads_.emplace_back([this, index] { worker_loop(index); });
  } catch (...) {
    stop();
    throw;
  }
}

Result<std::unique_ptr<WorkerTeam>> WorkerTeam::create(int threads) {
  try {
    return std::make_unique<WorkerTeam>(threads);
  } catch (const std::system_error& failure) {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("cannot start {} of them: {}", threads, failure.code().message()), "threads",
                 "use fewer"};
  }
}

WorkerTeam::~WorkerTeam() { stop(); }

void WorkerTeam::stop() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old) const {
  for (int i = 0; i < spins_; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  word.wait(old, std::memory_order_acquire);
}

void WorkerTeam::run_blocking(const std::function<void(int)>& body) {
  if (size_ == 1) {
    body(0);
    return;
  }
  body_ = &body;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  body(0);
  barrier();  // every worker has left `body`
}

void WorkerTeam::barrier() {
  if (size_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  wait_while_equal(phase_, phase);
}

void WorkerTeam::worker_loop(int index) {
  uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stopping_) return;
    (*body_)(index);
    barrier();
  }
}

}  // namespace rafter::base

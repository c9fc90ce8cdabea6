#include "serve/helper_pool.h"

#include <algorithm>
#include <utility>

namespace rafter::serve {

HelperPool::HelperPool(HelperLimits limits)
    : limits_(limits), small_thread_([this] { run(false); }), any_thread_([this] { run(true); }) {}

HelperPool::~HelperPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  small_thread_.join();
  any_thread_.join();
}

bool HelperPool::post(std::function<void()> work, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    // One that is larger than all may be is taken if it is alone.
    if (jobs_ == limits_.jobs || (jobs_ > 0 && bytes > limits_.bytes - std::min(bytes_, limits_.bytes)))
      return false;
    ++jobs_;
    bytes_ += bytes;
    (bytes <= limits_.small_bytes ? small_ : large_).push_back({std::move(work), bytes});
  }
  posted_.notify_all();
  return true;
}

void HelperPool::run(bool takes_large) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next = [&] { return takes_large && !large_.empty() ? &large_ : &small_; };
    posted_.wait(lock, [&] { return stopping_ || !next()->empty(); });
    if (stopping_) return;
    std::deque<Job>& queue = *next();
    Job job = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    job.work();
    job.work = nullptr;  // what it holds goes before it counts as done
    lock.lock();
    --jobs_;
    bytes_ -= job.bytes;
  }
}

}  // namespace rafter::serve

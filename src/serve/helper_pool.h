// Threads for work that would hold up the event loop: a request's JSON, its template, its tokens. What waits
// is bounded in number and in bytes. One thread takes small work only, so that a short request never waits
// behind a long prompt; the other takes what comes, large work first.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rafter::serve {

struct HelperLimits {
  size_t jobs = 1024;                     // that wait or run
  size_t bytes = size_t{256} << 20;       // of what they work on
  size_t small_bytes = size_t{64} << 10;  // at most so much is small work
};

class HelperPool {
 public:
  explicit HelperPool(HelperLimits limits = {});
  // After what runs has ended; what waits is dropped.
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  // From any thread. `bytes`: of what the work is about to read. False: too much waits already, and `work`
  // was dropped.
  [[nodiscard]] bool post(std::function<void()> work, size_t bytes);

 private:
  struct Job {
    std::function<void()> work;
    size_t bytes;
  };

  void run(bool takes_large);

  const HelperLimits limits_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Job> small_, large_;
  size_t jobs_ = 0, bytes_ = 0;  // waiting and running
  bool stopping_ = false;
  std::thread small_thread_, any_thread_;
};

}  // namespace rafter::serve

// The front process's one event-loop thread, timers on it, and helper threads for work that would block it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "serve/helper_pool.h"

namespace boost::asio {
class io_context;
}

namespace rafter::serve {

// Cancelled when it is destroyed.
class Timer {
 public:
  virtual ~Timer() = default;
};

class EventLoop {
 public:
  explicit EventLoop(HelperLimits limits = {});
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until stop(); the calling thread is the loop's.
  void run_blocking();
  void stop();  // from any thread

  // Runs on the loop, never from within the call. From any thread.
  void post(std::function<void()> work);
  // Runs on a helper thread; what it leaves for the loop it posts. See HelperPool::post.
  [[nodiscard]] bool run_aside(std::function<void()> work, size_t bytes);
  // Once, on the loop. Called on the loop.
  std::unique_ptr<Timer> after(std::chrono::milliseconds delay, std::function<void()> work);
  // SIGINT and SIGTERM: on the loop, with the number of signals so far.
  void on_signals(std::function<void(int)> work);

  boost::asio::io_context& context();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rafter::serve

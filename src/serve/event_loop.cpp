#include "serve/event_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rafter::serve {
namespace asio = boost::asio;

struct EventLoop::State {
  explicit State(HelperLimits limits) : helpers(limits), signals(context) {}

  asio::io_context context{1};
  HelperPool helpers;  // ends first: what it runs posts to the context
  asio::signal_set signals;
  std::function<void(int)> on_signal;
  int signal_count = 0;

  void await_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      on_signal(++signal_count);
      await_signal();
    });
  }
};

namespace {

// A worker's threads spin on every core. A thread that asks for short slices gets its turn sooner after it
// wakes (Linux 6.12 and later; before, it changes nothing), and needs no privileges for that. A lower
// niceness of the worker would do so too, at the price of its share beside other programs.
void ask_for_short_slices() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t niceness;
    uint32_t priority;
    uint64_t runtime, deadline, period;  // ns
  } attributes{};
  constexpr uint64_t kSlice = 100'000;  // the shortest there is
  attributes.size = sizeof(attributes);
  attributes.policy = SCHED_OTHER;
  attributes.niceness = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kSlice;
  if (::sched_getscheduler(0) == SCHED_OTHER) ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

class AsioTimer : public Timer {
 public:
  AsioTimer(asio::io_context& context, std::chrono::milliseconds delay, std::function<void()> work)
      : timer_(context, delay) {
    // The handler outlives the timer: a cancelled one may be queued already.
    timer_.async_wait([alive = std::weak_ptr<bool>(alive_), work = std::move(work)](const auto& error) {
      if (!error && !alive.expired()) work();
    });
  }

 private:
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  asio::steady_timer timer_;
};

}  // namespace

EventLoop::EventLoop(HelperLimits limits) : state_(std::make_unique<State>(limits)) {}

EventLoop::~EventLoop() = default;

void EventLoop::run_blocking() {
  ask_for_short_slices();
  const auto guard = asio::make_work_guard(state_->context);
  state_->context.run();
}

void EventLoop::stop() { state_->context.stop(); }

void EventLoop::post(std::function<void()> work) { asio::post(state_->context, std::move(work)); }

bool EventLoop::run_aside(std::function<void()> work, size_t bytes) {
  return state_->helpers.post(std::move(work), bytes);
}

std::unique_ptr<Timer> EventLoop::after(std::chrono::milliseconds delay, std::function<void()> work) {
  return std::make_unique<AsioTimer>(state_->context, delay, std::move(work));
}

void EventLoop::on_signals(std::function<void(int)> work) {
  state_->on_signal = std::move(work);
  state_->signals.add(SIGINT);
  state_->signals.add(SIGTERM);
  state_->await_signal();
}

asio::io_context& EventLoop::context() { return state_->context; }

}  // namespace rafter::serve

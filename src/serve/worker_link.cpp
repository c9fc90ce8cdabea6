#include "serve/worker_link.h"

#include <cerrno>
#include <chrono>

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

namespace rafter::serve {
namespace {

constexpr std::chrono::seconds kReportPeriod{1};
constexpr size_t kMostUnwritten = size_t{64} << 20;

// The front process is gone: nobody is left to work for, and a step may take long to return.
[[noreturn]] void leave() { ::_exit(0); }

sigset_t termination() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

WorkerLink::WorkerLink(int socket, std::function<nlohmann::json()> report)
    : socket_(socket), report_(std::move(report)) {
  const sigset_t set = termination();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGINT, SIG_IGN);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  RAFTER_CHECK(signals_ >= 0);
  reader_ = std::thread([this] { read_loop(); });
  writer_ = std::thread([this] { write_loop(); });
}

WorkerLink::~WorkerLink() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  queued_.notify_all();
  writer_.join();
  ::shutdown(socket_, SHUT_RDWR);  // wakes the reader
  reader_.join();
  ::close(socket_);
  ::close(signals_);
}

void WorkerLink::send_blocking(const nlohmann::json& message) {
  std::string frame = encode_frame(message);
  std::unique_lock lock(mutex_);
  written_.wait(lock, [&] { return outbox_bytes_ < kMostUnwritten; });
  outbox_bytes_ += frame.size();
  outbox_.push_back(std::move(frame));
  queued_.notify_one();
}

std::vector<nlohmann::json> WorkerLink::receive_blocking(std::optional<std::chrono::milliseconds> patience) {
  std::unique_lock lock(mutex_);
  const auto has_come = [&] { return !inbox_.empty() || ending_; };
  if (patience) {
    received_.wait_for(lock, *patience, has_come);
  } else {
    received_.wait(lock, has_come);
  }
  return std::exchange(inbox_, {});
}

void WorkerLink::read_loop() {
  FrameReader frames;
  std::vector<char> buffer(1 << 16);
  pollfd ends[2] = {{socket_, POLLIN, 0}, {signals_, POLLIN, 0}};
  for (;;) {
    ::poll(ends, 2, -1);
    if (ends[1].revents != 0) {
      ends[1].fd = -1;  // once is enough
      const std::lock_guard lock(mutex_);
      ending_ = true;
      received_.notify_all();
    }
    if (ends[0].revents == 0) continue;
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return closed();
    frames.push({buffer.data(), static_cast<size_t>(count)});
    std::vector<nlohmann::json> messages;  // reading a long prompt takes a while: the engine is not held up
    for (;;) {
      auto frame = frames.next();
      if (!frame.ok()) leave();
      if (!frame->has_value()) break;
      messages.push_back(std::move(**frame));
    }
    const std::lock_guard lock(mutex_);
    for (nlohmann::json& message : messages) inbox_.push_back(std::move(message));
    received_.notify_all();
  }
}

// By ourselves, or the front process is gone.
void WorkerLink::closed() {
  const std::lock_guard lock(mutex_);
  if (!closing_) leave();
}

void WorkerLink::write_loop() {
  auto next_report = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait_until(lock, next_report, [&] { return !outbox_.empty() || closing_; });
    if (outbox_.empty() && closing_) return;
    const std::deque<std::string> frames = std::exchange(outbox_, {});
    outbox_bytes_ = 0;
    written_.notify_all();
    lock.unlock();
    for (const std::string& frame : frames) {
      if (!write_all(frame)) leave();
    }
    if (std::chrono::steady_clock::now() >= next_report) {
      next_report = std::chrono::steady_clock::now() + kReportPeriod;
      if (!write_all(encode_frame(report_()))) leave();
    }
    lock.lock();
  }
}

bool WorkerLink::write_all(const std::string& bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace rafter::serve

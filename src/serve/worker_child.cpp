#include "serve/worker_child.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rafter::serve {
namespace {

constexpr int kWorkerSocket = 3;  // in the child

base::Error system_error(const char* what) {
  return {base::ErrorCode::io, fmt::format("{}: {}", what, std::strerror(errno)), "worker", ""};
}

// Between fork and exec of a process that may have threads: system calls only.
[[noreturn]] void become_worker(int socket, char* const* arguments) {
  // The front process's connections and files stay its own: a client would not see its connection closed.
  if (socket != kWorkerSocket && ::dup2(socket, kWorkerSocket) < 0) ::_exit(126);
  ::fcntl(kWorkerSocket, F_SETFD, 0);
  ::close_range(kWorkerSocket + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

}  // namespace

base::Result<std::string> own_program() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || length == static_cast<ssize_t>(path.size())) return system_error("/proc/self/exe");
  return std::string(path.data(), static_cast<size_t>(length));
}

base::Result<WorkerChild> WorkerChild::start(const std::vector<std::string>& command) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair");
  std::vector<std::string> words = command;
  words.insert(words.end(), {"--socket", std::to_string(kWorkerSocket)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) become_worker(ends[1], arguments.data());
  const int error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    errno = error;
    return system_error("fork");
  }
  return WorkerChild(pid, ends[0]);
}

WorkerChild::WorkerChild(WorkerChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::exchange(other.socket_, -1)) {}

WorkerChild::~WorkerChild() {
  if (socket_ >= 0) ::close(socket_);
  if (pid_ <= 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

int WorkerChild::release_socket() { return std::exchange(socket_, -1); }

void WorkerChild::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void WorkerChild::ask_to_end() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

std::optional<std::string> WorkerChild::reap() {
  if (pid_ <= 0) return "has ended";
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return std::nullopt;
  pid_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

std::string WorkerChild::reap_blocking() {
  constexpr int kTries = 20;
  for (int i = 0;; ++i) {
    if (const auto how = reap()) return *how;
    if (i == kTries) kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace rafter::serve

// Running the program as a user does: arguments, standard input, what it prints, how it ends; also on a
// terminal.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace rafter::testing {

struct ProgramResult {
  int exit_code = -1;  // 128 + n when signal n ended it
  std::string out, error;
};

inline int exit_code_of_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] inline void execute_program(const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>("rafter")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(RAFTER_PROGRAM, argv.data());
  ::_exit(127);
}

// Runs rafter to its end. Standard input is `input`. `interrupt_after`: sends SIGINT once that many bytes
// came out.
inline ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                                 size_t interrupt_after = 0) {
  int in[2], out[2], error[2];
  RAFTER_CHECK(::pipe(in) == 0 && ::pipe(out) == 0 && ::pipe(error) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(error[1], STDERR_FILENO);
    for (int* ends : {in, out, error}) ::close(ends[0]), ::close(ends[1]);
    execute_program(arguments);
  }
  ::close(in[0]), ::close(out[1]), ::close(error[1]);
  std::thread writer([&] {
    ::signal(SIGPIPE, SIG_IGN);
    size_t done = 0;
    while (done < input.size()) {
      const ssize_t count = ::write(in[1], input.data() + done, input.size() - done);
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    ::close(in[1]);
  });
  ProgramResult result;
  pollfd ends[2] = {{out[0], POLLIN, 0}, {error[0], POLLIN, 0}};
  std::string* texts[2] = {&result.out, &result.error};
  bool interrupted = interrupt_after == 0;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    ::poll(ends, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(ends[i].fd, buffer, sizeof(buffer));
      if (count > 0) texts[i]->append(buffer, static_cast<size_t>(count));
      if (count <= 0) ::close(ends[i].fd), ends[i].fd = -1;
    }
    if (!interrupted && result.out.size() >= interrupt_after) {
      ::kill(child, SIGINT);
      interrupted = true;
    }
  }
  writer.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = exit_code_of_status(status);
  return result;
}

// rafter on a pseudo-terminal, driven key by key.
class TerminalProgram {
 public:
  explicit TerminalProgram(const std::vector<std::string>& arguments) {
    winsize size{40, 100, 0, 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    RAFTER_CHECK(child_ >= 0);
    if (child_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::setenv("LC_ALL", "C.UTF-8", 1);
      execute_program(arguments);
    }
  }
  ~TerminalProgram() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(terminal_);
  }
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& keys) { RAFTER_CHECK(::write(terminal_, keys.data(), keys.size()) > 0); }

  // Waits until `text` appears in what came after the last match; false after `seconds`.
  bool wait_for(const std::string& text, int seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    for (;;) {
      if (const size_t at = screen_.find(text, seen_); at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > end || !read_more()) return false;
    }
  }

  // Waits for its end; -1 if it is still there after `seconds`.
  int wait_for_exit(int seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end) {
      int status = 0;
      read_more();
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return exit_code_of_status(status);
      }
    }
    return -1;
  }

  const std::string& screen() const { return screen_; }

 private:
  // Reads what is there within 50 ms; false when the terminal is closed.
  bool read_more() {
    pollfd end{terminal_, POLLIN, 0};
    if (::poll(&end, 1, 50) == 0) return true;
    char buffer[4096];
    const ssize_t count = ::read(terminal_, buffer, sizeof(buffer));
    if (count <= 0) return false;
    screen_.append(buffer, static_cast<size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

}  // namespace rafter::testing

// The worker as a child process: started with one end of a socket, watched, ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace rafter::serve {

class WorkerChild {
 public:
  // Runs `command` (a program's path, then its arguments) followed by "--socket" and the descriptor's number.
  // It inherits that and the standard streams, no other descriptor. Errors: io.
  static base::Result<WorkerChild> start(const std::vector<std::string>& command);

  WorkerChild(WorkerChild&& other) noexcept;
  WorkerChild& operator=(WorkerChild&&) = delete;
  ~WorkerChild();  // ends it at once

  // Our end; the caller's from here on. Once.
  int release_socket();
  pid_t pid() const { return pid_; }

  void kill();
  void ask_to_end();  // SIGTERM
  // How it has ended: "was killed by signal 9". Nothing while it has not.
  std::optional<std::string> reap();
  // The same, waiting for it; after a moment it is ended. The end of a process that holds a large model takes
  // its time.
  std::string reap_blocking();

 private:
  WorkerChild(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  pid_t pid_;  // −1: reaped
  int socket_;
};

// The program that is running.
base::Result<std::string> own_program();

}  // namespace rafter::serve

// `rafter serve` with a model, as a process of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "tests/support/run_program.h"

namespace rafter::testing {

// The program with `--port 0 --json`, until it is told to go.
class ServeProgram {
 public:
  // `descriptors`: the limit it runs under; 0: as it is.
  explicit ServeProgram(const std::string& model, const std::vector<std::string>& flags = {},
                        rlim_t descriptors = 0) {
    int out[2];
    RAFTER_CHECK(::pipe(out) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]), ::close(out[1]);
      const rlimit limit{descriptors, descriptors};
      if (descriptors > 0) ::setrlimit(RLIMIT_NOFILE, &limit);
      std::vector<std::string> arguments = {"serve", model, "--port", "0", "--json"};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      execute_program(arguments);
    }
    ::close(out[1]);
    std::string line;
    for (char c; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    const auto ready = nlohmann::json::parse(line, nullptr, false);
    RAFTER_CHECK(ready.is_object(), "serve said \"{}\"", line);
    const std::string url = ready.at("url");
    port_ = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  ~ServeProgram() {
    if (process_ > 0) end(SIGKILL);
  }

  uint16_t port() const { return port_; }
  pid_t pid() const { return process_; }
  // Sends the signal; what the program ended with.
  int end(int signal) {
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return exit_code_of_status(status);
  }
  // The worker: the program's only child.
  pid_t worker() const {
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process_))) {
      std::ifstream children(task.path() / "children");
      if (pid_t child = 0; children >> child) return child;
    }
    return -1;
  }

 private:
  pid_t process_ = -1;
  uint16_t port_ = 0;
};

}  // namespace rafter::testing

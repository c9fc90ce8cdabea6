// The worker's end of the socket, with a thread that reads and one that writes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/worker_frames.h"

namespace rafter::serve {

class WorkerLink {
 public:
  // Owns the socket. Takes over SIGTERM for the process (before other threads are started: they inherit
  // that). `report`: called once a second on the writing thread, for a frame that says that the process
  // lives.
  WorkerLink(int socket, std::function<nlohmann::json()> report);
  ~WorkerLink();  // after what was sent is written
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  // Waits while the front process is far behind in reading.
  void send_blocking(const nlohmann::json& message);
  // What came; waits for a message or SIGTERM, for so long at most (none: for ever).
  std::vector<nlohmann::json> receive_blocking(std::optional<std::chrono::milliseconds> patience);
  bool is_ending() const { return ending_; }  // SIGTERM came

 private:
  void read_loop();
  void closed();
  void write_loop();
  bool write_all(const std::string& bytes) const;

  int socket_, signals_;
  std::function<nlohmann::json()> report_;
  std::mutex mutex_;
  std::condition_variable received_, queued_, written_;
  std::vector<nlohmann::json> inbox_;
  std::deque<std::string> outbox_;
  size_t outbox_bytes_ = 0;
  bool closing_ = false;
  std::atomic<bool> ending_{false};
  std::thread reader_, writer_;
};

}  // namespace rafter::serve

// A team of persistent threads that runs one function at a time, and the barrier they meet at inside it.
//
// The caller's thread is worker 0. Waiting spins first and sleeps later; with more workers than cores it
// sleeps at once (a spinning barrier of an oversubscribed team costs milliseconds).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"

namespace rafter::base {

class WorkerTeam {
 public:
  // `threads` ≥ 1, the caller's included. Error (out_of_memory) if the system does not grant them.
  static Result<std::unique_ptr<WorkerTeam>> create(int threads);
  // The same; throws std::system_error, with no thread left running.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return size_; }

  // Runs body(worker index) on every worker and returns when all are done. Not reentrant; one caller at a
  // time.
  void run_blocking(const std::function<void(int)>& body);

  // Called by every worker inside `body`: returns when all have called it.
  void barrier();

 private:
  void worker_loop(int index);
  void stop();
  // Waits until `word` differs from `old`.
  void wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old) const;

  const int size_;
  int spins_;  // loads before sleeping
  const std::function<void(int)>* body_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<uint32_t> generation_{0};  // one per run
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};  // one per completed barrier
  std::vector<std::thread> threads_;
};

}  // namespace rafter::base

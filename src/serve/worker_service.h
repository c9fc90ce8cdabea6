// The model as a worker process: starts it, passes requests on, and replaces it when it dies or stops making
// progress.
//
//   WorkerService service(context, {.command = {program, "worker", "model.gguf"}});
//   service.start();
//   context.run();
//
// A worker that dies ends its requests with an error (unavailable) and another is started: at once, then
// after growing pauses. Three deaths within a minute end that, as does a model that cannot be opened.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "serve/model_service.h"

namespace boost::asio {
class io_context;
}

namespace rafter::serve {

struct WorkerOptions {
  std::vector<std::string> command;  // a program's path and its arguments; see WorkerChild
  // A worker that says nothing for so long, or gets nothing done while it has work, is replaced. It speaks
  // once a second; every op of a step, and every page that comes from a disk, is something done.
  std::chrono::milliseconds stuck_after = std::chrono::seconds(15);
  std::chrono::milliseconds first_pause =
      std::chrono::milliseconds(100);  // before a new one; then ten times that
  int most_deaths = 3;                 // within the minute
  // What a worker has, from drain() on, to answer and to save its prefixes.
  std::chrono::milliseconds end_patience = std::chrono::seconds(30);
  std::function<void(const std::string&)> log;  // one line about the worker's life; may be empty
};

class WorkerService final : public ModelService {
 public:
  // `context` must outlive it; its thread is the one that uses the service.
  WorkerService(boost::asio::io_context& context, WorkerOptions options);
  ~WorkerService() override;  // ends the worker; requests under way get no more calls

  void start();
  // From here on requests are refused; when the last is answered the worker ends, having saved what it
  // keeps, and `on_done` is called.
  void drain(std::function<void()> on_done);
  // For tests and the log; −1 while there is none.
  int worker_pid() const;

  ServiceState state() const override;
  std::string state_reason() const override;
  const std::optional<ModelFacts>& facts() const override;
  const ServiceStats& stats() const override;
  uint64_t submit(CompletionRequest request, CompletionListener listener) override;
  void cancel(uint64_t id) override;
  void embed(std::vector<int32_t> tokens,
             std::function<void(base::Result<std::vector<float>>)> on_finish) override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with what is queued on the context
};

}  // namespace rafter::serve

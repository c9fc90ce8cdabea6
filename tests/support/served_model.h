// A WorkerService over a real worker process, and ways to wait for what it does.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "serve/worker_service.h"

namespace rafter::testing {

// One request's story.
struct Answer {
  std::vector<decode::TokenEvent> events;
  std::vector<serve::CompletionProgress> progress;
  std::optional<decode::GenerationResult> result;
  int finishes = 0;

  serve::CompletionListener listener() {
    return {.on_progress = [this](const serve::CompletionProgress& p) { progress.push_back(p); },
            .on_token = [this](const decode::TokenEvent& event) { events.push_back(event); },
            .on_finish =
                [this](const decode::GenerationResult& r) {
                  result = r;
                  ++finishes;
                }};
  }
};

// The shell's command that writes these bytes to the front process.
inline std::string print_command(const std::string& bytes) {
  std::string octal;
  for (const char c : bytes) octal += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return "printf '" + octal + "' >&3";
}

// A command that stands in for a worker: writes these bytes, then these again and again.
inline std::vector<std::string> pretended_worker(const std::string& once, const std::string& again) {
  return {"/bin/sh", "-c",
          print_command(once) + "; while sleep 0.2; do " + print_command(again) + " || exit 0; done"};
}

class ServedModel {
 public:
  ServedModel(serve::WorkerOptions options) : service_(context_, logged(std::move(options))) {
    service_.start();
  }
  ServedModel(const std::string& model, std::vector<std::string> flags = {}, double stuck_after_seconds = 60)
      : service_(context_, options(model, std::move(flags), stuck_after_seconds)) {
    service_.start();
  }

  serve::WorkerService& service() { return service_; }
  const std::vector<std::string>& log() const { return *log_; }

  // Runs the event loop until `done()`; false after `seconds`.
  template <typename Done>
  bool run_until(const Done& done, double seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      context_.run_for(std::chrono::milliseconds(10));
      context_.restart();
    }
    return true;
  }
  bool run_until_state(serve::ServiceState state) {
    return run_until([&] { return service_.state() == state; });
  }
  bool run_until_ready() { return run_until_state(serve::ServiceState::ready); }
  // Submits and waits for the end.
  decode::GenerationResult ask(const serve::CompletionRequest& request) {
    Answer answer;
    service_.submit(request, answer.listener());
    if (!run_until([&] { return answer.result.has_value(); })) {
      decode::GenerationResult none;
      none.error = base::Error{base::ErrorCode::internal, "the test gave up waiting", "", ""};
      return none;
    }
    return *answer.result;
  }

 private:
  serve::WorkerOptions options(const std::string& model, std::vector<std::string> flags, double stuck_after) {
    serve::WorkerOptions options;
    options.command = {RAFTER_PROGRAM, "worker", model, "--device", "cpu", "--threads", "1"};
    options.command.insert(options.command.end(), flags.begin(), flags.end());
    options.stuck_after = std::chrono::milliseconds(static_cast<int64_t>(stuck_after * 1000));
    return logged(std::move(options));
  }
  serve::WorkerOptions logged(serve::WorkerOptions options) const {
    options.log = [log = log_](const std::string& line) { log->push_back(line); };
    return options;
  }

  std::shared_ptr<std::vector<std::string>> log_ = std::make_shared<std::vector<std::string>>();
  boost::asio::io_context context_;
  serve::WorkerService service_;
};

}  // namespace rafter::testing

#include "serve/worker_loop.h"

#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include "serve/worker_link.h"
#include "serve/worker_messages.h"

namespace rafter::serve {

using nlohmann::json;

namespace {

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Pages that were waited for: a model that comes from a slow disk makes progress, too.
uint64_t pages_read() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_majflt);
}

// What the writing thread reports while the engine's thread works.
class Progress {
 public:
  void watch(const WorkerModel& model) {
    const std::lock_guard lock(mutex_);
    work_done_ = model.work_done;
    check_files_ = model.check_files;
  }
  void set(const ServiceStats& stats) {
    const std::lock_guard lock(mutex_);
    stats_ = stats;
    ++steps_;
  }
  uint64_t steps() {
    const std::lock_guard lock(mutex_);
    return steps_so_far();
  }
  json report() {
    const std::lock_guard lock(mutex_);
    if (const base::Status intact = check_files_ ? check_files_() : base::Status(); !intact.ok())
      return {{"type", "broken"}, {"error", json_of_error(intact.error())}};
    stats_.resident_bytes = resident_bytes();
    return {{"type", "stats"}, {"steps", steps_so_far()}, {"stats", json_of_stats(stats_)}};
  }

 private:
  uint64_t steps_so_far() const { return steps_ + pages_read() + (work_done_ ? work_done_() : 0); }

  std::mutex mutex_;
  ServiceStats stats_;
  uint64_t steps_ = 0;
  std::function<uint64_t()> work_done_;
  std::function<base::Status()> check_files_;
};

class WorkerLoop {
 public:
  WorkerLoop(WorkerLink& link, Progress& progress, WorkerModel model)
      : link_(link), progress_(progress), model_(std::move(model)) {}

  void run_blocking() {
    while (!link_.is_ending() || is_busy()) {
      const bool may_save = !is_busy() && model_.lane != nullptr && model_.lane->has_unsaved_prefixes();
      const std::vector<json> messages = link_.receive_blocking(patience(may_save));
      for (const json& message : messages) handle(message);
      if (is_busy()) model_.lane->step();
      if (may_save && messages.empty()) model_.lane->save_prefix_blocking();
      publish();
    }
    while (model_.lane != nullptr && model_.lane->save_prefix_blocking()) {
    }
  }

 private:
  // Prefixes are saved when nobody has asked for anything for a while: people read and type for longer, and
  // an agent that asks again at once would have the same conversation written after every turn.
  std::optional<std::chrono::milliseconds> patience(bool may_save) const {
    constexpr std::chrono::milliseconds kIdle{2000};
    if (is_busy()) return std::chrono::milliseconds(0);
    if (may_save) return kIdle;
    return std::nullopt;
  }

  bool is_busy() const { return model_.lane != nullptr && !model_.lane->idle(); }

  void handle(const json& message) {
    const std::string type = text_of(message, "type");
    const uint64_t id = whole_number(message, "id");
    if (type == "submit") {
      const base::Status status = submit(id, message);
      if (!status.ok()) refuse(id, status.error());
    } else if (type == "cancel") {
      if (const auto found = lane_ids_.find(id); found != lane_ids_.end()) model_.lane->cancel(found->second);
    } else if (type == "embed") {
      embed(id, message);
    }
  }

  base::Status submit(uint64_t id, const json& message) {
    if (model_.lane == nullptr) return no_use("this model gives embeddings and generates no text");
    if (link_.is_ending()) {
      return base::Error{base::ErrorCode::unavailable, "the worker is ending", "model",
                         "try again in a moment"};
    }
    RAFTER_ASSIGN(CompletionRequest wanted, read_request(message.value("request", json::object())));
    const auto total = static_cast<int64_t>(wanted.prompt.size());
    RAFTER_ASSIGN(decode::GenerationRequest request, generation_request(std::move(wanted), model_));
    decode::GenerationListener listener;
    listener.on_progress = [this, id, total](int64_t queued_before, int64_t done) {
      events_.push_back({{"type", "progress"},
                         {"id", id},
                         {"queued_before", queued_before},
                         {"prompt_done", done},
                         {"prompt_total", total}});
    };
    listener.on_token = [this, id](const decode::TokenEvent& event) {
      events_.push_back(json_of_token(id, event));
    };
    listener.on_finish = [this, id](const decode::GenerationResult& result) {
      events_.push_back(json_of_result(id, result));
      lane_ids_.erase(id);
    };
    RAFTER_ASSIGN(const uint64_t lane_id, model_.lane->submit(std::move(request), std::move(listener)));
    lane_ids_[id] = lane_id;
    return {};
  }

  void embed(uint64_t id, const json& message) {
    std::vector<int32_t> tokens;
    for (const json& token : message.value("tokens", json::array()))
      tokens.push_back(token.is_number_integer() ? token.get<int32_t>() : -1);
    if (!model_.embed) return refuse(id, no_use("this model generates text and gives no embeddings").error());
    auto vector = model_.embed(tokens);
    if (!vector.ok()) return refuse(id, vector.error());
    events_.push_back({{"type", "embedding"}, {"id", id}, {"vector", *vector}});
    publish();  // the next one of many may take a while
  }

  static base::Status no_use(const char* what) {
    return base::Error{base::ErrorCode::unsupported, what, "model", ""};
  }

  void refuse(uint64_t id, const base::Error& error) {
    events_.push_back({{"type", "refused"}, {"id", id}, {"error", json_of_error(error)}});
  }

  void publish() {
    progress_.set(stats());
    if (events_.empty()) return;
    link_.send_blocking({{"type", "events"},
                         {"steps", progress_.steps()},
                         {"events", std::exchange(events_, json::array())}});
  }

  ServiceStats stats() {
    ServiceStats stats;
    if (model_.lane != nullptr) {
      const sched::SchedulerStats& lane = model_.lane->stats();
      stats.active = lane.active;
      stats.queued = lane.queued;
      stats.cached_prefix_tokens = lane.kept_tokens;
      if (!is_busy()) kept_bytes_ = model_.lane->kept_bytes();
      stats.kept_bytes = kept_bytes_;
      stats.prompt_tokens = lane.prompt_tokens;
      stats.cached_tokens = lane.cached_tokens;
      stats.generated_tokens = lane.generated_tokens;
      stats.prefill_seconds = lane.prefill_seconds;
      stats.decode_seconds = lane.decode_seconds;
    }
    if (model_.cache_bytes) stats.cache_bytes = model_.cache_bytes();
    return stats;
  }

  WorkerLink& link_;
  Progress& progress_;
  WorkerModel model_;
  std::map<uint64_t, uint64_t> lane_ids_;  // by the front process's
  json events_ = json::array();            // since the last frame
  int64_t kept_bytes_ = 0;
};

}  // namespace

base::Result<decode::GenerationRequest> generation_request(CompletionRequest wanted,
                                                           const WorkerModel& model) {
  decode::GenerationRequest request;
  request.prompt = std::move(wanted.prompt);
  request.sampling = std::move(wanted.sampling);
  request.max_tokens = wanted.max_tokens;
  request.overflow = decode::GenerationRequest::Overflow::finish;
  request.stop = std::move(wanted.stop);
  request.ignore_end = wanted.ignore_end;
  request.kept_markers = std::move(wanted.kept_markers);
  request.boundaries = std::move(wanted.boundaries);
  request.cache_space = std::move(wanted.cache_space);
  if (wanted.form) {
    if (!model.constraint)
      return base::Error{base::ErrorCode::unsupported, "answers of a given form are not supported", "form",
                         ""};
    RAFTER_ASSIGN(request.constraint, model.constraint(*wanted.form));
  }
  return request;
}

base::Status run_worker_blocking(int socket, const OpenModel& open) {
  Progress progress;
  WorkerLink link(socket, [&] { return progress.report(); });
  auto model = open();
  if (!model.ok()) {
    link.send_blocking({{"type", "failed"}, {"error", json_of_error(model.error())}});
    return model.error();
  }
  progress.watch(*model);
  link.send_blocking({{"type", "ready"}, {"facts", json_of_facts(model->facts)}});
  WorkerLoop(link, progress, std::move(model).value()).run_blocking();
  return {};
}

}  // namespace rafter::serve

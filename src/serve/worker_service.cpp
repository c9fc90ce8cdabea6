#include "serve/worker_service.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>

#include "serve/worker_child.h"
#include "serve/worker_frames.h"
#include "serve/worker_messages.h"

namespace rafter::serve {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

namespace {

constexpr std::chrono::minutes kDeathWindow{1};
using std::chrono::milliseconds;
constexpr milliseconds kWatchPeriod{250};

base::Error unavailable(std::string what) {
  return {base::ErrorCode::unavailable, std::move(what), "model", "try again in a moment"};
}

decode::GenerationResult failed_result(base::Error error) {
  decode::GenerationResult result;
  result.reason = decode::FinishReason::error;
  result.error = std::move(error);
  return result;
}

// One request under way: who listens, and what came so far.
struct Pending {
  CompletionListener listener;
  decode::GenerationResult result;
  std::function<void(base::Result<std::vector<float>>)> on_embedding;  // of an embedding request
};

void finish_with_error(Pending& pending, const base::Error& error) {
  if (pending.on_embedding) return pending.on_embedding(error);
  pending.result.reason = decode::FinishReason::error;
  pending.result.error = error;
  if (pending.listener.on_finish) pending.listener.on_finish(pending.result);
}

}  // namespace

struct WorkerService::Impl : std::enable_shared_from_this<Impl> {
  // One worker's life. What is queued for an earlier one finds it is not the current one.
  struct Worker {
    Worker(asio::io_context& context, WorkerChild started) : child(std::move(started)), socket(context) {}
    WorkerChild child;
    asio::local::stream_protocol::socket socket;
    FrameReader reader;
    std::array<char, 65536> buffer;
    std::deque<std::string> unsent;
    Clock::time_point last_heard = Clock::now(), last_progress = Clock::now();
    uint64_t steps = 0;
    std::string reason;  // why we ended it; empty if it ended itself
  };
  using WorkerRef = std::shared_ptr<Worker>;

  Impl(asio::io_context& io, WorkerOptions opts)
      : context(io), options(std::move(opts)), watch(io), restart(io), reap(io) {}

  asio::io_context& context;
  WorkerOptions options;
  asio::steady_timer watch, restart, reap;
  Clock::time_point last_check = Clock::now();
  bool closed = false;  // the service is gone: nothing queued may do anything
  WorkerRef worker;
  ServiceState state = ServiceState::loading;
  std::string reason;
  std::optional<ModelFacts> facts;
  ServiceStats stats;
  std::map<uint64_t, Pending> pending;
  uint64_t next_id = 1;
  std::deque<Clock::time_point> deaths;
  std::function<void()> on_drained;
  bool draining = false, is_ending = false;

  void log(const std::string& line) const {
    if (options.log) options.log(line);
  }

  void spawn() {
    auto child = WorkerChild::start(options.command);
    if (!child.ok()) return give_up(child.error().message());
    worker = std::make_shared<Worker>(context, std::move(child).value());
    boost::system::error_code error;
    worker->socket.assign(asio::local::stream_protocol(), worker->child.release_socket(), error);
    if (error) return give_up(error.message());
    read(worker);
  }

  void give_up(std::string why) {
    state = ServiceState::failed;
    reason = std::move(why);
    worker.reset();
    if (facts) log("the model is not served any more: " + reason);  // else whoever started it says so
    fail_all(unavailable(reason));
    if (draining) finish_drain();
  }

  void fail_all(const base::Error& error) {
    std::map<uint64_t, Pending> failed;
    failed.swap(pending);
    for (auto& [id, request] : failed) finish_with_error(request, error);
  }

  void read(const WorkerRef& from) {
    from->socket.async_read_some(asio::buffer(from->buffer),
                                 [self = shared_from_this(), from](const auto& error, size_t count) {
                                   if (self->closed || self->worker != from) return;
                                   if (error) return self->lost();
                                   from->reader.push({from->buffer.data(), count});
                                   if (self->handle_frames(from)) self->read(from);
                                 });
  }

  // False when the worker is another one or none by now.
  bool handle_frames(const WorkerRef& from) {
    from->last_heard = Clock::now();
    for (;;) {
      auto frame = from->reader.next();
      if (!frame.ok()) {
        end_worker(frame.error().message());
        return false;
      }
      if (!frame->has_value()) return true;
      handle(**frame);
      if (closed || worker != from) return false;
    }
  }

  void handle(const json& message) {
    const std::string type = text_of(message, "type");
    if (const uint64_t steps = whole_number(message, "steps", worker->steps); steps != worker->steps) {
      worker->steps = steps;
      worker->last_progress = Clock::now();
    }
    if (type == "events") {
      const auto events = message.find("events");
      if (events == message.end() || !events->is_array()) return end_worker("events that are no array");
      const WorkerRef from = worker;
      for (const json& event : *events) {
        handle_event(event);
        if (closed || worker != from) return;  // a listener may have ended the service
      }
    } else if (type == "stats") {
      auto read = read_stats(message.value("stats", json::object()));
      if (!read.ok()) return end_worker(read.error().message());
      const int64_t restarts = stats.restarts;
      stats = *read;
      stats.restarts = restarts;
    } else if (type == "ready") {
      auto read = read_facts(message.value("facts", json::object()));
      if (!read.ok()) return end_worker(read.error().message());
      facts = *read;
      state = ServiceState::ready;
      reason.clear();
      log(fmt::format("the model is ready: {}, {} positions", facts->executor, facts->context_limit));
    } else if (type == "broken") {
      end_worker("cannot go on: " + read_error(message.value("error", json::object())).message());
    } else if (type == "failed") {
      give_up(read_error(message.value("error", json::object())).message());
    }
  }

  void handle_event(const json& event) {
    const auto found = pending.find(whole_number(event, "id"));
    if (found == pending.end()) return;
    const std::string type = text_of(event, "type");
    if (type == "token") {
      auto token = read_token(event);
      if (!token.ok()) return end_worker(token.error().message());
      decode::GenerationResult& result = found->second.result;
      if (token->token) result.tokens.push_back(*token->token);
      result.text += token->text;
      // A copy: the listener may call us.
      if (const auto on_token = found->second.listener.on_token) on_token(*token);
    } else if (type == "progress") {
      auto progress = read_progress(event);
      if (!progress.ok()) return end_worker(progress.error().message());
      if (const auto on_progress = found->second.listener.on_progress) on_progress(*progress);
    } else {
      Pending done = std::move(found->second);
      pending.erase(found);
      finish(done, event, type);
      if (draining && pending.empty()) finish_drain();
    }
  }

  static void finish(Pending& done, const json& event, const std::string& type) {
    if (type == "embedding" && done.on_embedding) {
      std::vector<float> vector;
      for (const json& value : event.value("vector", json::array()))
        vector.push_back(value.is_number() ? value.get<float>() : 0);
      return done.on_embedding(std::move(vector));
    }
    if (type == "refused") return finish_with_error(done, read_error(event.value("error", json::object())));
    auto result = read_result(event);
    if (!result.ok()) return finish_with_error(done, result.error());
    result->tokens = std::move(done.result.tokens);
    result->text = std::move(done.result.text);
    if (done.listener.on_finish) done.listener.on_finish(*result);
  }

  // It broke a rule or is stuck: its end is noticed as any other.
  void end_worker(const std::string& why) {
    worker->reason = why;
    worker->child.kill();
    lost();
  }

  // From here on there is no worker; its process may take a while to end.
  void lost() {
    const WorkerRef dead = std::exchange(worker, nullptr);
    boost::system::error_code ignored;
    dead->socket.close(ignored);
    state = ServiceState::restarting;
    reason = "the worker " + (dead->reason.empty() ? "has ended" : dead->reason);
    stats.active = stats.queued = stats.cache_bytes = stats.kept_bytes = stats.cached_prefix_tokens = 0;
    stats.resident_bytes = 0;
    await_end(dead, Clock::now());
  }

  void await_end(const WorkerRef& dead, Clock::time_point since) {
    constexpr milliseconds kPoll{5}, kPatience{100};
    if (const auto how = dead->child.reap()) return ended(*dead, *how);
    if (Clock::now() - since > kPatience) dead->child.kill();  // its socket is gone, and it is not
    reap.expires_after(kPoll);
    reap.async_wait([self = shared_from_this(), dead, since](const auto& error) {
      if (!error && !self->closed) self->await_end(dead, since);
    });
  }

  void ended(const Worker& dead, const std::string& how) {
    const std::string why =
        "the worker " + (dead.reason.empty() ? how : fmt::format("{} ({})", dead.reason, how));
    if (draining) {
      fail_all(unavailable(why));
      return finish_drain();
    }
    const auto now = Clock::now();
    deaths.push_back(now);
    while (deaths.front() + kDeathWindow < now) deaths.pop_front();
    if (static_cast<int>(deaths.size()) >= options.most_deaths) {
      return give_up(fmt::format("{}, and that {} times within a minute", why, deaths.size()));
    }
    reason = why;
    ++stats.restarts;
    log(why + "; starting another");
    restart.expires_after(deaths.size() == 1 ? options.first_pause : 10 * options.first_pause);
    restart.async_wait([self = shared_from_this()](const auto& error) {
      if (!error && !self->closed && !self->draining) self->spawn();
    });
    fail_all(unavailable(why));
  }

  void watch_worker() {
    watch.expires_after(kWatchPeriod);
    watch.async_wait([self = shared_from_this()](const auto& error) {
      if (error || self->closed) return;
      self->check_worker();
      self->watch_worker();
    });
  }

  void check_worker() {
    const auto now = Clock::now();
    // Whatever held this process up (a suspended machine, a debugger) is not the worker's fault.
    const auto late = now - std::exchange(last_check, now) - kWatchPeriod;
    if (worker == nullptr) return;
    if (late > kWatchPeriod) {
      worker->last_heard += late;
      worker->last_progress += late;
    }
    if (pending.empty()) worker->last_progress = now;
    if (now - worker->last_heard > options.stuck_after) return end_worker("stopped answering");
    if (now - worker->last_progress > options.stuck_after) end_worker("stopped making progress");
  }

  void send(const json& message) {
    const WorkerRef to = worker;
    to->unsent.push_back(encode_frame(message));
    if (to->unsent.size() == 1) write(to);
  }

  void write(const WorkerRef& to) {
    asio::async_write(to->socket, asio::buffer(to->unsent.front()),
                      [self = shared_from_this(), to](const auto& error, size_t) {
                        // A broken socket is noticed by whoever reads.
                        if (self->closed || self->worker != to || error) return;
                        to->unsent.pop_front();
                        if (!to->unsent.empty()) self->write(to);
                      });
  }

  std::optional<base::Error> refusal() const {
    if (draining) return unavailable("the server is shutting down");
    switch (state) {
      case ServiceState::ready:
        return std::nullopt;
      case ServiceState::loading:
        return unavailable("the model is loading");
      default:
        return unavailable(reason);
    }
  }

  void finish_drain() {
    if (worker != nullptr) {  // it saves what it keeps, and ends: lost() comes here again
      if (std::exchange(is_ending, true)) return;
      return state == ServiceState::ready ? worker->child.ask_to_end() : worker->child.kill();
    }
    restart.cancel();
    watch.cancel();
    if (const auto done = std::exchange(on_drained, nullptr)) asio::post(context, done);
  }
};

WorkerService::WorkerService(asio::io_context& context, WorkerOptions options)
    : impl_(std::make_shared<Impl>(context, std::move(options))) {}

WorkerService::~WorkerService() {
  impl_->closed = true;
  impl_->watch.cancel();
  impl_->restart.cancel();
  impl_->reap.cancel();
  impl_->worker.reset();
}

void WorkerService::start() {
  impl_->spawn();
  impl_->watch_worker();
}

void WorkerService::drain(std::function<void()> on_done) {
  impl_->draining = true;
  impl_->on_drained = std::move(on_done);
  impl_->restart.expires_after(impl_->options.end_patience);  // nothing is restarted any more
  impl_->restart.async_wait([self = impl_](const auto& error) {
    if (!error && self->worker != nullptr) self->worker->child.kill();
  });
  if (impl_->pending.empty()) impl_->finish_drain();
}

int WorkerService::worker_pid() const { return impl_->worker ? impl_->worker->child.pid() : -1; }
ServiceState WorkerService::state() const { return impl_->state; }
std::string WorkerService::state_reason() const { return impl_->reason; }
const std::optional<ModelFacts>& WorkerService::facts() const { return impl_->facts; }
const ServiceStats& WorkerService::stats() const { return impl_->stats; }

uint64_t WorkerService::submit(CompletionRequest request, CompletionListener listener) {
  const uint64_t id = impl_->next_id++;
  if (const auto refusal = impl_->refusal()) {
    asio::post(impl_->context, [result = failed_result(*refusal), listener = std::move(listener)] {
      if (listener.on_finish) listener.on_finish(result);
    });
    return id;
  }
  impl_->send({{"type", "submit"}, {"id", id}, {"request", json_of_request(request)}});
  Pending& pending = impl_->pending[id];
  pending.listener = std::move(listener);
  pending.result.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  return id;
}

void WorkerService::cancel(uint64_t id) {
  if (impl_->pending.contains(id)) impl_->send({{"type", "cancel"}, {"id", id}});
}

void WorkerService::embed(std::vector<int32_t> tokens,
                          std::function<void(base::Result<std::vector<float>>)> on_finish) {
  const uint64_t id = impl_->next_id++;
  if (const auto refusal = impl_->refusal()) {
    asio::post(impl_->context, [error = *refusal, on_finish = std::move(on_finish)] { on_finish(error); });
    return;
  }
  impl_->send({{"type", "embed"}, {"id", id}, {"tokens", tokens}});
  impl_->pending[id].on_embedding = std::move(on_finish);
}

}  // namespace rafter::serve

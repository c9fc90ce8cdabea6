#include "serve/generation_task.h"

#include <atomic>

#include <fmt/format.h>

namespace rafter::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKeepAlive{10'000};  // at least so often a waiting stream says something
constexpr milliseconds kNoteInterval{500};  // at most so often it tells of progress
// A service tells soon whether it takes a request. A stream that it has not refused by then begins: the
// client sees that the connection is alive, and a later refusal is an event of the stream.
constexpr milliseconds kRefusalTime{300};

ApiError stopping() {
  return {503, "the request was cancelled: the server is stopping", "server_error", "cancelled", "", 5};
}

class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  GenerationTask(Front& front, std::shared_ptr<HttpExchange> exchange, AskReader reader)
      : front_(front), exchange_(std::move(exchange)), reader_(std::move(reader)) {}

  void start(std::string body) {
    exchange_->on_closed([self = shared_from_this()] { self->client_left(); });
    under_way_ = front_.add_answer([task = weak_from_this()] {
      if (const auto self = task.lock()) self->stop();
    });
    const size_t bytes = body.size();
    // The task changes threads with its last owner: it must end on the loop.
    const bool taken = front_.loop().run_aside(
        [self = shared_from_this(), body = std::move(body), context = front_.context()]() mutable {
          prepare(std::move(self), std::move(body), context);
        },
        bytes);
    if (!taken) refuse(too_many_to_read());
  }

 private:
  // On a helper thread.
  static void prepare(std::shared_ptr<GenerationTask> self, std::string body, int64_t context) {
    auto prepared = std::make_shared<base::Result<PreparedRequest>>(prepare_request(
        self->front_, self->reader_, std::move(body), context, [&] { return self->is_gone_.load(); }));
    EventLoop& loop = self->front_.loop();
    loop.post([self = std::move(self), prepared] { self->submit(std::move(*prepared)); });
  }

  void submit(base::Result<PreparedRequest> prepared) {
    if (finished_ || exchange_->closed()) return;
    if (!prepared.ok()) return refuse(prepared.error());
    if (prepared->at_once) return answer_at_once(std::move(*prepared->at_once));
    CompletionRequest& request = prepared->request;
    if (const base::Status valid = decode::validate(request.sampling, vocabulary()); !valid.ok())
      return refuse(valid.error());
    collector_ = std::move(prepared->collector);
    reply_ = std::move(prepared->reply);
    on_answer_ = std::move(prepared->on_answer);
    stream_ = prepared->stream;
    reply_->start({random_hex(32), unix_seconds(), front_.options().model_id,
                   static_cast<int64_t>(request.prompt.size())});
    const auto self = shared_from_this();
    id_ = front_.service().submit(
        std::move(request),
        {.on_progress = [self](const CompletionProgress& progress) { self->on_progress(progress); },
         .on_token = [self](const decode::TokenEvent& event) { self->on_token(event); },
         .on_finish = [self](const decode::GenerationResult& result) { self->on_finish(result); }});
    if (stream_) timer_ = front_.loop().after(kRefusalTime, [this] { keep_alive(); });
  }

  int64_t vocabulary() const {
    const auto& facts = front_.service().facts();
    return facts && facts->vocabulary_size > 0 ? facts->vocabulary_size
                                               : front_.text().tokenizer().vocab_size();
  }

  void on_progress(const CompletionProgress& progress) {
    note_ = progress.queued_before > 0
                ? fmt::format("queued {}", progress.queued_before)
                : fmt::format("keepalive {}/{}", progress.prompt_done, progress.prompt_total);
    if (!stream_ || finished_) return;
    const auto now = std::chrono::steady_clock::now();
    if (!begun_ || now - last_note_ >= kNoteInterval) keep_alive();
  }

  // Begins the stream if it has not; else says something.
  void keep_alive() {
    if (finished_ || exchange_->closed()) return;
    if (!begun_) {
      begin();
    } else if (!has_token_) {
      exchange_->write(reply_->keep_alive(note_));
    }
    last_note_ = std::chrono::steady_clock::now();
    timer_ = front_.loop().after(kKeepAlive, [this] { keep_alive(); });
  }

  void begin() {
    begun_ = true;
    ++front_.counts().open_streams;
    ++front_.counts().responses[200];
    exchange_->begin(200, reply_->stream_type(),
                     {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
    exchange_->write(reply_->begin());
  }

  void on_token(const decode::TokenEvent& event) {
    if (finished_ || collector_->is_complete()) return;
    const auto events = collector_->push(event);
    if (stream_) {
      if (!begun_) begin();
      has_token_ = true;
      send(events);
    }
    // on_finish tells the rest.
    if (collector_->is_complete()) front_.service().cancel(id_);
  }

  void send(const std::vector<text::OutputEvent>& events) {
    // Tokens wait for the text that they are part of.
    if (events.empty()) return;
    exchange_->write(reply_->piece({events, collector_->take_records()}));
  }

  void on_finish(const decode::GenerationResult& result) {
    if (finished_) return;
    finished_ = true;
    timer_ = nullptr;
    if (begun_) --front_.counts().open_streams;
    if (exchange_->closed()) return drop();
    if (result.reason == decode::FinishReason::error) {
      const base::Error unknown{base::ErrorCode::internal, "generation failed", "", ""};
      return fail(api_error(result.error.value_or(unknown)));
    }
    if (result.reason == decode::FinishReason::cancelled && !collector_->is_complete())
      return fail(stopping());
    const auto events = collector_->finish();
    const Answer answer = collector_->answer(result);
    if (on_answer_) on_answer_(answer);
    if (!stream_) {
      ++front_.counts().responses[200];
      respond_json(*exchange_, reply_->whole(answer));
      return drop();
    }
    if (!begun_) {
      begin();
      --front_.counts().open_streams;
    }
    const auto records = collector_->take_records();
    if (!events.empty() || !records.empty()) exchange_->write(reply_->piece({events, records}));
    exchange_->write(reply_->end(answer));
    exchange_->end();
    drop();
  }

  void answer_at_once(HttpResponse response) {
    finished_ = true;
    ++front_.counts().responses[response.status];
    exchange_->respond(std::move(response));
    drop();
  }

  // The server ends before the answer does.
  void stop() {
    if (finished_ || exchange_->closed()) return;
    finished_ = is_gone_ = true;
    if (begun_) --front_.counts().open_streams;
    if (id_ != 0) front_.service().cancel(id_);
    fail(stopping());
  }

  void refuse(const base::Error& error) {
    finished_ = true;
    fail(api_error(error));
  }

  void fail(const ApiError& error) {
    if (begun_) {
      exchange_->write(reply_->failure(error));
      exchange_->end();
    } else {
      ++front_.counts().responses[error.status];
      exchange_->respond(error_response(error, reply_ ? reply_->refusal(error) : reader_.error_body(error)));
    }
    drop();
  }

  void client_left() {
    is_gone_ = true;
    front_.remove_answer(under_way_);
    ++front_.counts().cancelled;
    timer_ = nullptr;
    if (id_ != 0) front_.service().cancel(id_);
  }

  // Nothing is written any more. The exchange's callback holds this task, and this task the exchange.
  void drop() {
    front_.remove_answer(under_way_);
    exchange_->on_closed(nullptr);
    timer_ = nullptr;
  }

  Front& front_;
  std::shared_ptr<HttpExchange> exchange_;
  AskReader reader_;
  std::atomic<bool> is_gone_{false};  // read on the helper thread; the rest is the loop's
  std::unique_ptr<Reply> reply_;
  std::function<void(const Answer&)> on_answer_;
  std::optional<AnswerCollector> collector_;
  std::unique_ptr<Timer> timer_;
  std::string note_ = "keepalive";
  std::chrono::steady_clock::time_point last_note_;
  uint64_t id_ = 0, under_way_ = 0;
  bool stream_ = false, begun_ = false, has_token_ = false, finished_ = false;
};

}  // namespace

void start_generation(Front& front, std::string body, std::shared_ptr<HttpExchange> exchange,
                      AskReader reader) {
  std::make_shared<GenerationTask>(front, std::move(exchange), std::move(reader))->start(std::move(body));
}

}  // namespace rafter::serve

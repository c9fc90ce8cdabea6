#include "serve/generation_task.h"

#include <fmt/format.h>

#include "serve/answer_collector.h"

namespace rafter::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKeepAlive{10'000};  // at least so often a waiting stream says something
constexpr milliseconds kNoteInterval{500};  // at most so often it tells of progress
// A service tells soon whether it takes a request. A stream that it has not refused by then begins: the
// client sees that the connection is alive, and a later refusal is an event of the stream.
constexpr milliseconds kRefusalTime{300};

base::Result<BuiltPrompt> build_prompt(const PromptBuilder& prompts, const Ask& ask) {
  if (const auto* conversation = std::get_if<Conversation>(&ask.prompt)) return prompts.build(*conversation);
  return prompts.build(std::get<RawPrompt>(ask.prompt));
}

ApiError stopping() {
  return {503, "the request was cancelled: the server is stopping", "server_error", "cancelled", "", 5};
}

class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  GenerationTask(Front& front, Ask ask, std::unique_ptr<Reply> reply, std::shared_ptr<HttpExchange> exchange,
                 std::function<void(const Answer&)> on_answer)
      : front_(front),
        ask_(std::move(ask)),
        reply_(std::move(reply)),
        exchange_(std::move(exchange)),
        on_answer_(std::move(on_answer)) {}

  void start() {
    if (const base::Status known = front_.check_model(ask_.model); !known.ok()) return refuse(known.error());
    exchange_->on_closed([self = shared_from_this()] { self->client_left(); });
    under_way_ = front_.add_answer([task = weak_from_this()] {
      if (const auto self = task.lock()) self->stop();
    });
    // The task changes threads with its last owner: it must end on the loop.
    front_.loop().run_aside([self = shared_from_this()]() mutable {
      EventLoop& loop = self->front_.loop();
      auto prompt =
          std::make_shared<base::Result<BuiltPrompt>>(build_prompt(self->front_.prompts(), self->ask_));
      loop.post([self = std::move(self), prompt] { self->submit(std::move(*prompt)); });
    });
  }

 private:
  void submit(base::Result<BuiltPrompt> prompt) {
    if (finished_ || exchange_->closed()) return;
    if (!prompt.ok()) return refuse(prompt.error());
    auto request = request_of(*prompt);
    if (!request.ok()) return refuse(request.error());
    reply_->start({random_hex(32), unix_seconds(), front_.options().model_id,
                   static_cast<int64_t>(request->prompt.size())});
    const auto self = shared_from_this();
    id_ = front_.service().submit(
        std::move(*request),
        {.on_progress = [self](const CompletionProgress& progress) { self->on_progress(progress); },
         .on_token = [self](const decode::TokenEvent& event) { self->on_token(event); },
         .on_finish = [self](const decode::GenerationResult& result) { self->on_finish(result); }});
    if (ask_.stream) timer_ = front_.loop().after(kRefusalTime, [this] { keep_alive(); });
  }

  // What the model is asked; sets up the collector for what comes back.
  base::Result<CompletionRequest> request_of(BuiltPrompt& prompt) {
    CompletionRequest request;
    request.sampling =
        sampling_params(ask_.sampling, front_.options().sampling, front_.text(), prompt.thinking_off);
    RAFTER_TRY(decode::validate(request.sampling, vocabulary()));
    request.max_tokens = ask_.max_tokens ? ask_.max_tokens : front_.options().max_tokens;
    request.ignore_end = ask_.ignore_end;
    request.json_schema = ask_.json_schema;
    request.boundaries = std::move(prompt.boundaries);
    request.prompt = std::move(prompt.tokens);
    RAFTER_ASSIGN(AnswerPlan plan, plan_of(prompt));
    // Where nothing but content can come, the model's side finds stop strings itself, a step earlier.
    if (!plan.format || (plan.format->reasoning == nullptr && !plan.parser.parse_calls))
      request.stop = std::exchange(plan.stop, {});
    if (plan.format) request.kept_markers = text::kept_markers(*plan.format);
    RAFTER_ASSIGN(AnswerCollector collector,
                  AnswerCollector::create(std::move(plan), front_.text().tokenizer()));
    collector_.emplace(std::move(collector));
    return request;
  }

  base::Result<AnswerPlan> plan_of(const BuiltPrompt& prompt) const {
    AnswerPlan plan;
    plan.stop = ask_.stop;
    plan.parallel_calls = ask_.parallel_calls;
    const auto* conversation = std::get_if<Conversation>(&ask_.prompt);
    if (conversation == nullptr) return plan;
    plan.format = front_.format();
    plan.opening = prompt.opening;
    plan.parser.start = prompt.start;
    RAFTER_ASSIGN(plan.parser.tools, text::ToolSchemas::from_json(to_text(conversation->tools)));
    plan.parser.parse_calls = !plan.parser.tools.empty() &&
                              conversation->tool_choice.kind != ToolChoice::Kind::none && !ask_.json_schema;
    plan.parser.delivery = ask_.stream ? text::CallDelivery::as_they_come : text::CallDelivery::whole;
    plan.parser.id_seed = std::stoull(random_hex(16), nullptr, 16);
    return plan;
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
    if (!ask_.stream || finished_) return;
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
    if (ask_.stream) {
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
    if (!ask_.stream) {
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

  // The server ends before the answer does.
  void stop() {
    if (finished_ || exchange_->closed()) return;
    finished_ = true;
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
      exchange_->respond(error_response(error, reply_->refusal(error)));
    }
    drop();
  }

  void client_left() {
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
  Ask ask_;
  std::unique_ptr<Reply> reply_;
  std::shared_ptr<HttpExchange> exchange_;
  std::function<void(const Answer&)> on_answer_;
  std::optional<AnswerCollector> collector_;
  std::unique_ptr<Timer> timer_;
  std::string note_ = "keepalive";
  std::chrono::steady_clock::time_point last_note_;
  uint64_t id_ = 0, under_way_ = 0;
  bool begun_ = false, has_token_ = false, finished_ = false;
};

template <typename Out, typename In>
void override_with(Out& out, const std::optional<In>& server, const std::optional<In>& request) {
  if (server) out = static_cast<Out>(*server);
  if (request) out = static_cast<Out>(*request);
}

}  // namespace

decode::SamplingParams sampling_params(const SamplingFields& request, const SamplingFields& server,
                                       const decode::ModelText& text, bool thinking_off) {
  constexpr float kCoolest =
      0.7f;  // an answer without reasoning in front of it is drawn no hotter by default
  decode::SamplingParams params = text.default_sampling();
  if (thinking_off) params.temperature = std::min(params.temperature, kCoolest);
  override_with(params.temperature, server.temperature, request.temperature);
  override_with(params.top_p, server.top_p, request.top_p);
  override_with(params.min_p, server.min_p, request.min_p);
  override_with(params.top_k, server.top_k, request.top_k);
  override_with(params.xtc_probability, server.xtc_probability, request.xtc_probability);
  override_with(params.xtc_threshold, server.xtc_threshold, request.xtc_threshold);
  override_with(params.repetition.strength, server.repetition_penalty, request.repetition_penalty);
  override_with(params.presence.strength, server.presence_penalty, request.presence_penalty);
  override_with(params.frequency.strength, server.frequency_penalty, request.frequency_penalty);
  override_with(params.repetition.window, server.repetition_window, request.repetition_window);
  override_with(params.presence.window, server.presence_window, request.presence_window);
  override_with(params.frequency.window, server.frequency_window, request.frequency_window);
  if (params.xtc_probability > 0) {
    params.xtc_exempt = text.end_tokens();
    if (const auto newline = text.tokenizer().encode("\n", /*add_special=*/false); newline.ok())
      params.xtc_exempt.insert(params.xtc_exempt.end(), newline->begin(), newline->end());
  }
  params.logit_bias = request.logit_bias;
  params.seed = request.seed;
  params.top_logprobs = request.top_logprobs;
  return params;
}

void build_prompt_aside(Front& front, Ask ask, std::shared_ptr<HttpExchange> exchange,
                        std::function<void(HttpExchange&, base::Result<BuiltPrompt>)> use) {
  front.loop().run_aside(
      [&front, ask = std::move(ask), exchange = std::move(exchange), use = std::move(use)]() mutable {
        auto prompt = std::make_shared<base::Result<BuiltPrompt>>(build_prompt(front.prompts(), ask));
        front.loop().post([exchange = std::move(exchange), use = std::move(use), prompt] {
          if (!exchange->closed()) use(*exchange, std::move(*prompt));
        });
      });
}

void start_generation(Front& front, Ask ask, std::unique_ptr<Reply> reply,
                      std::shared_ptr<HttpExchange> exchange, std::function<void(const Answer&)> on_answer) {
  std::make_shared<GenerationTask>(front, std::move(ask), std::move(reply), std::move(exchange),
                                   std::move(on_answer))
      ->start();
}

}  // namespace rafter::serve

#include "tests/support/fake_service.h"

#include <cmath>

namespace rafter::testing {

using decode::FinishReason;

struct FakeService::Row {
  serve::CompletionRequest request;
  serve::CompletionListener listener;
  FakeAnswer answer;
  std::vector<int32_t> tokens;
  size_t next = 0;
  std::optional<decode::TextStream> stream;
  decode::GenerationResult result;
  std::unique_ptr<serve::Timer> timer;
};

FakeService::FakeService(serve::EventLoop& loop, text::Tokenizer tokenizer)
    : loop_(loop), tokenizer_(std::move(tokenizer)) {
  known_facts = serve::ModelFacts{
      .context_limit = 4096, .vocabulary_size = tokenizer_.vocab_size(), .executor = "fake", .batch = 4};
}

FakeService::~FakeService() = default;

uint64_t FakeService::submit(serve::CompletionRequest request, serve::CompletionListener listener) {
  const uint64_t id = next_id_++;
  auto row = std::make_unique<Row>();
  row->answer = script ? script(request) : FakeAnswer{.text = "Hello there."};
  requests.push_back(request);
  row->result.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  row->result.cached_tokens = row->answer.cached;
  row->result.seed = request.sampling.seed.value_or(42);
  row->tokens = tokenizer_.encode(row->answer.text, false).value();
  row->stream.emplace(decode::TextStream::create(tokenizer_, request.stop).value());
  row->request = std::move(request);
  row->listener = std::move(listener);
  rows_[id] = std::move(row);
  loop_.post([this, id, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) start(id);
  });
  return id;
}

void FakeService::start(uint64_t id) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  Row& row = *found->second;
  if (row.answer.refused) return finish(id, FinishReason::error, row.answer.refused);
  if (!row.answer.silent && row.listener.on_progress)
    row.listener.on_progress({row.answer.queued_before, row.answer.cached, row.result.prompt_tokens});
  if (!rows_.contains(id)) return;
  row.timer = loop_.after(row.answer.before_first, [this, id] { step(id); });
}

void FakeService::step(uint64_t id) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  Row& row = *found->second;
  if (row.answer.endless && row.next == row.tokens.size()) row.next = 0;
  const auto generated = static_cast<int64_t>(row.result.tokens.size());
  if (row.request.max_tokens && generated >= *row.request.max_tokens) return finish(id, FinishReason::length);
  if (row.next == row.tokens.size())
    return finish(id, row.answer.fails_at_end ? FinishReason::error : FinishReason::stop,
                  row.answer.fails_at_end);
  decode::TokenEvent event;
  event.token = row.tokens[row.next++];
  const decode::TextStream::Output shown = row.stream->push(*event.token);
  event.text = shown.text;
  if (row.request.sampling.top_logprobs >= 0) {
    event.logprob = -0.5f;
    for (int32_t i = 0; i < row.request.sampling.top_logprobs; ++i)
      event.best.push_back({i, -0.5f - static_cast<float>(i)});
  }
  row.result.tokens.push_back(*event.token);
  row.result.text += event.text;
  if (shown.stop) row.result.stop_string = row.request.stop[*shown.stop];
  // The listener may cancel.
  auto on_token = row.listener.on_token;
  on_token(event);
  if (!rows_.contains(id)) return;
  if (shown.stop) return finish(id, FinishReason::stop);
  row.timer = loop_.after(row.answer.between, [this, id] { step(id); });
}

void FakeService::finish(uint64_t id, FinishReason reason, std::optional<base::Error> error) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  const std::unique_ptr<Row> row = std::move(found->second);
  rows_.erase(found);
  if (reason == FinishReason::stop || reason == FinishReason::length) {
    decode::TokenEvent rest{.token = {}, .text = row->stream->flush().text, .logprob = {}, .best = {}};
    row->result.text += rest.text;
    if (!rest.text.empty()) row->listener.on_token(rest);
  }
  row->result.reason = reason;
  row->result.error = std::move(error);
  row->listener.on_finish(row->result);
}

void FakeService::cancel(uint64_t id) {
  if (!rows_.contains(id)) return;
  ++cancels;
  rows_[id]->timer = nullptr;
  loop_.post([this, id, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) finish(id, FinishReason::cancelled);
  });
}

void FakeService::embed(std::vector<int32_t> tokens,
                        std::function<void(base::Result<std::vector<float>>)> on_finish) {
  loop_.post([tokens = std::move(tokens), on_finish = std::move(on_finish),
              embeds = known_facts->is_embedder] {
    if (!embeds)
      return on_finish(base::Error{base::ErrorCode::unsupported, "the model makes no embeddings", "", ""});
    std::vector<float> vector = {static_cast<float>(tokens.size()),
                                 static_cast<float>(tokens.empty() ? 0 : tokens[0]), 1, 2};
    double squares = 0;
    for (const float value : vector) squares += double{value} * value;
    for (float& value : vector) value = static_cast<float>(value / std::sqrt(squares));
    on_finish(std::move(vector));
  });
}

}  // namespace rafter::testing

#include "serve/answer_collector.h"

namespace rafter::serve {
namespace {

using Event = text::OutputEvent;
using Kind = text::OutputEvent::Kind;

void append_content(std::vector<Event>& out, std::string text) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == Kind::content) {
    out.back().text += text;
  } else {
    out.push_back({.kind = Kind::content, .text = std::move(text)});
  }
}

TokenChoice choice_of(const text::Tokenizer& tokenizer, int32_t id, float logprob) {
  std::string bytes(tokenizer.token_bytes(id));
  if (bytes.empty()) bytes = tokenizer.piece(id);  // a special token adds nothing to the text
  return {id, std::move(bytes), logprob};
}

}  // namespace

base::Result<AnswerCollector> AnswerCollector::create(AnswerPlan plan, const text::Tokenizer& tokenizer) {
  RAFTER_ASSIGN(text::StopMatcher matcher, text::StopMatcher::create(plan.stop));
  return AnswerCollector(std::move(plan), std::move(matcher), tokenizer);
}

AnswerCollector::AnswerCollector(AnswerPlan plan, text::StopMatcher matcher, const text::Tokenizer& tokenizer)
    : plan_(std::move(plan)), fresh_matcher_(matcher), matcher_(std::move(matcher)), tokenizer_(tokenizer) {
  if (plan_.format) parser_.emplace(*plan_.format, plan_.parser);
}

std::vector<Event> AnswerCollector::push(const decode::TokenEvent& event) {
  if (complete_) return {};
  if (event.token) {
    ids_.push_back(*event.token);
    if (parser_ && parser_->is_reasoning()) ++reasoning_tokens_;
    if (event.logprob) {
      TokenRecord record{choice_of(tokenizer_, *event.token, *event.logprob), {}};
      for (const decode::TokenLogprob& best : event.best)
        record.best.push_back(choice_of(tokenizer_, best.token, best.logprob));
      answer_.tokens.push_back(std::move(record));
    }
  }
  std::vector<Event> events;
  if (!parser_) {
    append_content(events, event.text);
    return filter(std::move(events));
  }
  return filter(parser_->push(event.text));
}

std::vector<Event> AnswerCollector::finish() {
  if (complete_) return {};
  std::vector<Event> out;
  if (parser_) {
    out = filter(parser_->finish());
    if (complete_) return out;
  }
  std::vector<Event> rest;
  release_held(rest);
  collect(rest);
  for (Event& event : rest) out.push_back(std::move(event));
  return out;
}

std::vector<Event> AnswerCollector::filter(std::vector<Event> events) {
  std::vector<Event> out;
  for (Event& event : events) {
    if (complete_) break;
    if (event.kind == Kind::content) {
      filter_content(event.text, out);
      continue;
    }
    release_held(out);
    const bool ends = event.kind == Kind::call_end && !plan_.parallel_calls;
    out.push_back(std::move(event));
    complete_ = complete_ || ends;
  }
  collect(out);
  return out;
}

void AnswerCollector::filter_content(std::string_view text, std::vector<Event>& out) {
  text::StopMatcher::Output shown = matcher_.push(text);
  append_content(out, std::move(shown.text));
  if (!shown.stop) return;
  answer_.stop_string = plan_.stop[*shown.stop];
  complete_ = true;
}

// Other kinds of events part the content: a stop string does not reach across them.
void AnswerCollector::release_held(std::vector<Event>& out) {
  append_content(out, matcher_.flush());
  matcher_ = fresh_matcher_;
}

void AnswerCollector::collect(const std::vector<Event>& events) {
  for (const Event& event : events) {
    switch (event.kind) {
      case Kind::reasoning:
        answer_.reasoning += event.text;
        break;
      case Kind::content:
        answer_.content += event.text;
        break;
      case Kind::call_start:
        answer_.calls.push_back({event.id, event.name, ""});
        is_calling_ = true;
        break;
      case Kind::call_arguments:
        answer_.calls.back().arguments += event.text;
        break;
      case Kind::call_end:
        is_calling_ = false;
        break;
      case Kind::call_void:
        answer_.calls.pop_back();
        is_calling_ = false;
        break;
    }
  }
}

std::span<const TokenRecord> AnswerCollector::take_records() {
  const auto records = std::span<const TokenRecord>(answer_.tokens).subspan(records_taken_);
  records_taken_ = answer_.tokens.size();
  return records;
}

Answer AnswerCollector::answer(const decode::GenerationResult& result) const {
  Answer answer = answer_;
  if (is_calling_ && !answer.calls.empty()) answer.calls.pop_back();  // cut in the middle
  answer.ids = complete_ ? ids_ : result.tokens;  // what came after the end does not count
  if (!answer.stop_string) answer.stop_string = result.stop_string;
  answer.ending = result.reason == decode::FinishReason::length && !complete_ ? Ending::length : Ending::stop;
  if (!answer.calls.empty()) answer.ending = Ending::tool_calls;
  answer.usage = {result.prompt_tokens, result.cached_tokens, static_cast<int64_t>(answer.ids.size()),
                  reasoning_tokens_};
  answer.timings = {result.prefill_seconds, result.decode_seconds, result.prefill_tokens_per_second(),
                    result.decode_tokens_per_second()};
  answer.seed = result.seed;
  return answer;
}

}  // namespace rafter::serve

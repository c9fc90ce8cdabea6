#include "decode/generation.h"

#include <algorithm>

#include <xxhash.h>

namespace rafter::decode {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::string hash_of(std::span<const float> logits) {
  return fmt::format("{:016x}", XXH64(logits.data(), logits.size_bytes(), 0));
}

base::Status check_prompt(const std::vector<int32_t>& prompt, int64_t vocabulary) {
  if (prompt.empty()) {
    return base::Error{base::ErrorCode::invalid_argument, "there are no tokens to continue from", "prompt",
                       "give at least one character"};
  }
  for (int32_t token : prompt) {
    if (token >= 0 && token < vocabulary) continue;
    return base::Error{base::ErrorCode::invalid_argument,
                       fmt::format("token {} is outside the model's vocabulary of {}", token, vocabulary),
                       "prompt", "the tokenizer and the weights do not belong together"};
  }
  return {};
}

base::Error too_long(int64_t prompt, int64_t answer, bool explicit_limit, int64_t context) {
  const std::string wanted = explicit_limit ? fmt::format(" and max_tokens {}", answer)
                                            : fmt::format(" and {} more for the answer", answer);
  return base::Error{
      base::ErrorCode::out_of_memory,
      fmt::format("{} prompt tokens{} need {} positions, the context limit is {}", prompt, wanted,
                  static_cast<uint64_t>(prompt) + static_cast<uint64_t>(answer), context),
      "context",
      explicit_limit && prompt < context
          ? fmt::format("at most {} tokens are left for the answer", context - prompt)
          : "shorten the prompt or raise the context limit"};
}

// The most positions in [least, most] that fit, `least` being known to.
int64_t most_that_fit(const StepEngine& engine, int64_t least, int64_t most) {
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    if (engine.check_fits(middle).ok()) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

// How many tokens the answer may have: what is asked for if it fits; without a number, what fits.
base::Result<int64_t> answer_limit(const StepEngine& engine, int64_t prompt,
                                   const GenerationRequest& request) {
  using Overflow = GenerationRequest::Overflow;
  const std::optional<int64_t> wanted = request.max_tokens;
  if (wanted && *wanted < 1) {
    return base::Error{base::ErrorCode::invalid_argument, fmt::format("must be at least 1, not {}", *wanted),
                       "max_tokens", ""};
  }
  const int64_t context = engine.context_limit();
  int64_t least = wanted.value_or(1);
  if (request.overflow == Overflow::finish)
    least = std::min(wanted.value_or(GenerationRequest::kAnswerReserve), GenerationRequest::kAnswerReserve);
  if (least > context - prompt)
    return too_long(prompt, least, wanted && request.overflow == Overflow::refuse, context);
  RAFTER_TRY(engine.check_fits(prompt + least));
  if (wanted == least) return least;
  const int64_t room = most_that_fit(engine, prompt + least, context) - prompt;
  return wanted ? std::min(room, *wanted) : room;
}

base::Status check_boundaries(const std::vector<int64_t>& boundaries, int64_t prompt) {
  const bool in_range = boundaries.empty() || (boundaries.front() >= 0 && boundaries.back() <= prompt);
  if (in_range && std::is_sorted(boundaries.begin(), boundaries.end())) return {};
  return base::Error{base::ErrorCode::invalid_argument, "not ascending lengths of the prompt", "boundaries",
                     ""};
}

}  // namespace

base::Result<std::unique_ptr<Generation>> Generation::create(const StepEngine& engine,
                                                             const GenerationSetting& setting,
                                                             GenerationRequest request,
                                                             GenerationListener listener) {
  RAFTER_TRY(check_prompt(request.prompt, engine.vocabulary_size()));
  RAFTER_TRY(validate(request.sampling, engine.vocabulary_size()));
  RAFTER_TRY(check_boundaries(request.boundaries, static_cast<int64_t>(request.prompt.size())));
  RAFTER_ASSIGN(TextStream stream, TextStream::create(setting.tokenizer, request.stop, request.kept_markers));
  RAFTER_ASSIGN(const int64_t max_tokens,
                answer_limit(engine, static_cast<int64_t>(request.prompt.size()), request));
  return std::unique_ptr<Generation>(
      new Generation(setting, std::move(request), std::move(listener), std::move(stream), max_tokens));
}

Generation::Generation(const GenerationSetting& setting, GenerationRequest request,
                       GenerationListener listener, TextStream stream, int64_t max_tokens)
    : setting_(setting),
      request_(std::move(request)),
      listener_(std::move(listener)),
      sampler_(request_.sampling),
      stream_(std::move(stream)),
      max_tokens_(max_tokens),
      tokens_(request_.prompt) {
  result_.prompt_tokens = static_cast<int64_t>(tokens_.size());
  result_.seed = sampler_.seed();
}

void Generation::attach(int32_t sequence, int64_t held) {
  RAFTER_CHECK(sequence_ < 0 && held < static_cast<int64_t>(tokens_.size()), "{} held of {}", held,
               tokens_.size());
  sequence_ = sequence;
  fed_ = held;
  if (!was_attached_) result_.cached_tokens = held;
  was_attached_ = true;
}

void Generation::detach() {
  sequence_ = -1;
  fed_ = 0;
}

std::optional<int64_t> Generation::next_boundary() const {
  const auto& boundaries = request_.boundaries;
  const auto found = std::upper_bound(boundaries.begin(), boundaries.end(), fed_);
  if (found != boundaries.end()) return *found;
  if (fed_ < result_.prompt_tokens) return result_.prompt_tokens;
  return std::nullopt;
}

void Generation::report_progress(int64_t queued_before) {
  const std::pair<int64_t, int64_t> now = {queued_before, std::min(fed_, result_.prompt_tokens)};
  if (now == reported_ || has_sampled() || finished_) return;
  reported_ = now;
  if (listener_.on_progress) listener_.on_progress(now.first, now.second);
}

bool Generation::is_cancelled() const {
  return request_.cancelled != nullptr && request_.cancelled->load(std::memory_order_relaxed);
}

void Generation::add_rows(int64_t limit, std::vector<engine::Row>& rows) {
  const int64_t end = fed_ + std::min(limit, pending());
  if (!started_) started_ = Clock::now();
  for (int64_t position = fed_; position < end; ++position) {
    const bool is_last = position + 1 == static_cast<int64_t>(tokens_.size());
    rows.push_back(
        {tokens_[static_cast<size_t>(position)], static_cast<int32_t>(position), sequence_, is_last, 0});
  }
}

void Generation::advance(int64_t count) { fed_ += count; }

void Generation::accept(std::span<const float> logits, SamplerScratch& scratch) {
  TokenConstraint* const constraint = request_.constraint.get();
  base::Result<Sample> sample = sampler_.sample(logits, tokens_, scratch, constraint);
  if (!sample.ok()) return finish(FinishReason::error, sample.error());
  if (constraint != nullptr && !constraint->accept(sample->token)) {
    return finish(FinishReason::error,
                  base::Error{base::ErrorCode::internal,
                              fmt::format("token {} may not come here", sample->token), "constraint", ""});
  }
  const Clock::time_point now = Clock::now();
  if (!first_token_) {
    first_token_ = now;
    result_.prefill_seconds = seconds_between(*started_, now);
  }
  result_.decode_seconds = seconds_between(*first_token_, now);
  tokens_.push_back(sample->token);
  result_.tokens.push_back(sample->token);

  const auto& ends = setting_.end_tokens;
  const bool is_end = (!request_.ignore_end || constraint != nullptr) &&
                      std::find(ends.begin(), ends.end(), sample->token) != ends.end();
  const bool is_done = constraint != nullptr && constraint->must_end();
  const bool is_full = static_cast<int64_t>(result_.tokens.size()) >= max_tokens_;
  TextStream::Output output;
  if (!is_end) output = stream_.push(sample->token);
  if (!output.stop && (is_end || is_done || is_full)) {
    const TextStream::Output rest = stream_.flush();
    output.text += rest.text;
    output.stop = rest.stop;
  }
  emit({sample->token, std::move(output.text), sample->logprob, std::move(sample->best)});
  if (!output.stop && !is_end && !is_done && !is_full) return;
  if (output.stop) result_.stop_string = request_.stop[*output.stop];
  result_.logits_hash = hash_of(logits);
  complete(output.stop || is_end || is_done ? FinishReason::stop : FinishReason::length);
}

void Generation::finish(FinishReason reason, std::optional<base::Error> error) {
  if (finished_) return;
  TextStream::Output rest = stream_.flush();
  if (!rest.text.empty()) emit({std::nullopt, std::move(rest.text), std::nullopt, {}});
  result_.error = std::move(error);
  complete(reason);
}

void Generation::emit(TokenEvent event) {
  result_.text += event.text;
  if (listener_.on_token) listener_.on_token(event);
}

void Generation::complete(FinishReason reason) {
  finished_ = true;
  result_.reason = reason;
  if (listener_.on_finish) listener_.on_finish(result_);
}

}  // namespace rafter::decode

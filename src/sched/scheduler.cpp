#include "sched/scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace rafter::sched {

using decode::FinishReason;
using decode::Generation;

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Of an answer's length, what a request is let in with: answers are rarely as long as they may be. Those that
// are, grow on, by so many positions ahead at a time.
constexpr int64_t kExpectedAnswer = 1024, kGrowth = 64;

// A prefix that another request is about to compute is waited for if it saves at least so many tokens.
constexpr int64_t kWorthWaiting = 64;

// A long prefix counts as used later than it was, by one request per so many tokens and so many requests at
// most: a client's short side request (a title for the chat) does not push out the conversation it is about,
// and a conversation that is over does not stay for ever.
constexpr int64_t kTokensPerRequest = 512, kMostRequests = 32;

int64_t rank_of(int64_t clock, size_t tokens) {
  return clock + std::min(static_cast<int64_t>(tokens) / kTokensPerRequest, kMostRequests);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Positions that the request should find room for.
int64_t expected_positions(const Generation& generation) {
  const auto now = static_cast<int64_t>(generation.tokens().size());
  const int64_t most = generation.prompt_tokens() + generation.max_tokens();
  return std::min(most, std::max(now + kGrowth, generation.prompt_tokens() + kExpectedAnswer));
}

// It computes its prompt, or, after it gave way to others, what it already said.
bool is_prompting(const Generation& generation) {
  return !generation.has_sampled() || generation.pending() > 1;
}

}  // namespace

Scheduler::Scheduler(decode::StepEngine& engine, decode::GenerationSetting setting, SchedulerOptions options)
    : engine_(engine),
      setting_(std::move(setting)),
      options_(std::move(options)),
      capacity_(engine.row_capacity()),
      budget_(options_.stream_gap) {
  RAFTER_CHECK(capacity_ >= 1 && options_.batch >= 1, "{} rows, batch {}", capacity_, options_.batch);
  if (options_.prefill_chunk <= 0 || options_.prefill_chunk > capacity_) options_.prefill_chunk = capacity_;
  if (!options_.now) options_.now = steady_seconds;
}

Scheduler::~Scheduler() {
  for (const PrefixTree::Leaf& leaf : tree_.leaves()) engine_.release_sequence(leaf.sequence);
}

base::Result<uint64_t> Scheduler::submit(decode::GenerationRequest request,
                                         decode::GenerationListener listener) {
  const auto waiting = static_cast<int64_t>(waiting_.size());
  const auto active = static_cast<int64_t>(active_.size());
  if (active + waiting >= options_.batch + options_.queue) {
    return base::Error{base::ErrorCode::busy,
                       fmt::format("{} requests are being answered and {} wait", active, waiting), "queue",
                       "try again later"};
  }
  RAFTER_ASSIGN(auto generation,
                Generation::create(engine_, setting_, std::move(request), std::move(listener)));
  stats_.prompt_tokens += generation->prompt_tokens();
  waiting_.push_back({next_id_, std::move(generation), tree_.end(), false});
  stats_.queued = static_cast<int64_t>(waiting_.size());
  return next_id_++;
}

void Scheduler::cancel(uint64_t id) {
  for (Request& request : waiting_) request.is_cancelled |= request.id == id;
  for (Request& request : active_) request.is_cancelled |= request.id == id;
}

bool Scheduler::step() {
  end_cancelled();
  admit();
  report_progress();
  plan_step();
  if (!rows_.empty()) {
    const double before = options_.now();
    const base::Status status = run_step();
    if (!status.ok()) {
      fail_step(status.error());
    } else if (!rows_.empty()) {
      finish_step(options_.now() - before);
    }
    ++stats_.steps;
  }
  settle_finished();
  report_progress();
  return !idle();
}

void Scheduler::end_cancelled() {
  const auto end = [](Request& request) {
    if (request.is_cancelled || request.generation->is_cancelled())
      request.generation->finish(FinishReason::cancelled);
  };
  for (Request& request : waiting_) end(request);
  for (Request& request : active_) end(request);
  settle_finished();
}

void Scheduler::report_progress() {
  for (Request& request : active_) request.generation->report_progress(0);
  int64_t in_front = 0;
  for (Request& request : waiting_) request.generation->report_progress(++in_front);
}

// --- admission

// In order of arrival. Only those that wait for a prefix which is being computed are overtaken.
void Scheduler::admit() {
  for (size_t i = 0; i < waiting_.size() && static_cast<int64_t>(active_.size()) < options_.batch;) {
    const Admission admission = try_admit(waiting_[i]);
    if (admission == Admission::awaits_prefix) {
      ++i;
      continue;
    }
    if (admission == Admission::needs_memory) {
      if (!active_.empty()) break;
      waiting_[i].generation->finish(
          FinishReason::error,
          base::Error{base::ErrorCode::out_of_memory, "the cache has no sequence for it", "cache", ""});
    } else {
      active_.push_back(std::move(waiting_[i]));
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  stats_.active = static_cast<int64_t>(active_.size());
  stats_.queued = static_cast<int64_t>(waiting_.size());
}

Scheduler::Admission Scheduler::try_admit(Request& request) {
  Generation& generation = *request.generation;
  Match match = find_prefix(generation);
  if (awaits_prefix(generation, match.length)) return Admission::awaits_prefix;
  if (!has_memory_for(generation, match)) return Admission::needs_memory;
  if (load_prefix(request, match.length)) match = find_prefix(generation);
  if (!take_sequence(request, match)) return Admission::needs_memory;
  if (!generation.has_sampled()) stats_.cached_tokens += generation.held();
  const auto tokens = generation.tokens();
  request.leaf = tree_.insert(
      {generation.request().cache_space, {tokens.begin(), tokens.end()}, generation.sequence(), false, 0});
  return Admission::admitted;
}

// Takes a prefix out of a file if that saves enough. What is kept gives way, so far as it must.
bool Scheduler::load_prefix(Request& request, int64_t found) {
  if (options_.saved == nullptr || std::exchange(request.has_looked_in_files, true)) return false;
  const Generation& generation = *request.generation;
  const auto tokens = generation.tokens();
  const SavedPrefixes::Match match = options_.saved->find(
      generation.request().cache_space, tokens.first(tokens.size() - 1), found + kWorthWaiting);
  if (match.path.empty()) return false;
  auto loaded = options_.saved->load_blocking(match.path);
  while (!loaded.ok() && loaded.error().code == base::ErrorCode::out_of_memory && evict_prefix(tree_.end()))
    loaded = options_.saved->load_blocking(match.path);
  if (!loaded.ok()) return false;
  const int64_t rank = rank_of(clock_, loaded->head.tokens.size());
  tree_.insert({loaded->head.space, std::move(loaded->head.tokens), loaded->sequence, true, rank, true});
  ++stats_.loaded_prefixes;
  trim_prefixes();
  return true;
}

// The longest prefix that some sequence holds and can be entered at. The last token is computed in any case:
// its logits are what the answer starts from.
Scheduler::Match Scheduler::find_prefix(const Generation& generation) const {
  Match best{tree_.end(), 0};
  const auto tokens = generation.tokens();
  tree_.visit_matches(generation.request().cache_space, tokens.first(tokens.size() - 1),
                      [&](PrefixTree::Handle leaf, int64_t shared) {
                        if (shared <= best.length) return false;
                        const int64_t held = std::min(shared, engine_.length(leaf->sequence));
                        const int64_t length = engine_.reentry_position(leaf->sequence, held);
                        if (length > best.length) best = {leaf, length};
                        return true;
                      });
  return best;
}

// Whether a request under way is about to compute more of this one's prompt than `found` tokens.
bool Scheduler::awaits_prefix(const Generation& generation, int64_t found) const {
  const auto tokens = generation.tokens();
  return std::any_of(active_.begin(), active_.end(), [&](const Request& other) {
    const Generation& ahead = *other.generation;
    if (!is_prompting(ahead) || ahead.request().cache_space != generation.request().cache_space) return false;
    int64_t entry = common_prefix(ahead.tokens(), tokens.first(tokens.size() - 1));
    if (!engine_.reenters_anywhere()) {
      const auto& boundaries = ahead.request().boundaries;
      const auto beyond = std::upper_bound(boundaries.begin(), boundaries.end(), entry);
      entry = beyond == boundaries.begin() ? 0 : *(beyond - 1);
    }
    return ahead.held() < entry && entry >= found + kWorthWaiting;
  });
}

bool Scheduler::has_memory_for(const Generation& generation, const Match& match) const {
  if (active_.empty()) return true;  // it fits alone: Generation::create saw to that
  std::vector<engine::Growth> growth;
  for (const Request& request : active_) {
    const Generation& other = *request.generation;
    growth.push_back({other.sequence(), other.held(), expected_positions(other)});
  }
  const int32_t sequence = match.length > 0 ? match.leaf->sequence : -1;
  growth.push_back({sequence, match.length, expected_positions(generation)});
  return engine_.can_hold(growth);
}

// A fork of what holds the prefix; a prefix that ends there, or that no other sequence is left for, is taken
// over itself. False: all sequences belong to requests under way.
bool Scheduler::take_sequence(Request& request, const Match& match) {
  Generation& generation = *request.generation;
  if (match.length > 0) {
    const int32_t sequence = match.leaf->sequence;
    const bool is_kept = match.leaf->is_kept;
    if (!is_kept || engine_.length(sequence) > match.length) {
      auto fork = engine_.fork_sequence(sequence, match.length);
      while (!fork.ok() && evict_prefix(match.leaf)) fork = engine_.fork_sequence(sequence, match.length);
      if (fork.ok()) {
        match.leaf->rank = rank_of(clock_, match.leaf->tokens.size());
        generation.attach(*fork, match.length);
        return true;
      }
    }
    if (is_kept) {
      tree_.erase(match.leaf);
      engine_.truncate(sequence, match.length);
      generation.attach(sequence, match.length);
      return true;
    }
  }
  auto created = engine_.create_sequence();
  while (!created.ok() && evict_prefix(tree_.end())) created = engine_.create_sequence();
  if (!created.ok()) return false;
  generation.attach(*created, 0);
  return true;
}

// --- the step

void Scheduler::plan_step() {
  rows_.clear();
  shares_.clear();
  const size_t count = active_.size();
  for (size_t i = 0; i < count; ++i) {
    Generation& generation = *active_[(turn_ + i) % count].generation;
    const bool has_room = static_cast<int64_t>(rows_.size()) < capacity_;
    if (has_room && !is_prompting(generation)) add_share(generation, 1, /*is_prompt=*/false);
  }
  if (count > 0) turn_ = (turn_ + shares_.size()) % count;
  const auto decode_rows = static_cast<int64_t>(rows_.size());
  const int64_t most = std::min(options_.prefill_chunk, capacity_ - decode_rows);
  if (most > 0) add_prompt_rows(budget_.prompt_rows(decode_rows, most));
}

// Half of them of the oldest prompt, so that none starves; then of the one that needs fewest, so that a short
// question does not wait for a long document; what is left goes to the others by age.
void Scheduler::add_prompt_rows(int64_t rows) {
  std::vector<Generation*> prompting;
  for (Request& request : active_) {
    if (is_prompting(*request.generation)) prompting.push_back(request.generation.get());
  }
  if (prompting.empty()) return;
  const auto take = [&](Generation* generation, int64_t most) {
    const int64_t count = std::min({most, generation->pending(), rows_to_boundary(*generation)});
    add_share(*generation, count, /*is_prompt=*/true);
    rows -= count;
    std::erase(prompting, generation);
  };
  const auto shortest =
      std::min_element(prompting.begin(), prompting.end(),
                       [](const auto* a, const auto* b) { return a->pending() < b->pending(); });
  Generation* const short_one = *shortest;
  if (short_one != prompting.front()) {
    const int64_t half = (rows + 1) / 2;
    take(prompting.front(), std::max(half, rows - short_one->pending()));
    if (rows > 0) take(short_one, rows);
  }
  while (rows > 0 && !prompting.empty()) take(prompting.front(), rows);
}

void Scheduler::add_share(Generation& generation, int64_t limit, bool is_prompt) {
  const size_t before = rows_.size();
  generation.add_rows(limit, rows_);
  shares_.push_back(
      {&generation, static_cast<int64_t>(rows_.size() - before), rows_.back().wants_logits, is_prompt});
}

// A step ends where the state has to be retained.
int64_t Scheduler::rows_to_boundary(const Generation& generation) const {
  if (engine_.reenters_anywhere()) return kUnlimited;
  const std::optional<int64_t> boundary = generation.next_boundary();
  return boundary ? *boundary - generation.held() : kUnlimited;
}

// Runs the planned rows; where memory ends, kept prefixes give way, then the youngest requests. No rows are
// left when nothing could be computed.
base::Status Scheduler::run_step() {
  while (!rows_.empty()) {
    while (!engine_.has_room(rows_) && evict_prefix(tree_.end())) {
    }
    const base::Status status = engine_.step(rows_);
    if (status.ok() || status.error().code != base::ErrorCode::out_of_memory) return status;
    make_way(status.error());
    plan_step();
  }
  return {};
}

void Scheduler::make_way(const base::Error& error) {
  if (evict_prefix(tree_.end())) return;
  if (active_.size() > 1) return preempt_youngest();
  Generation& last = *active_.front().generation;
  if (last.has_sampled()) {
    last.finish(FinishReason::length);
  } else {
    last.finish(FinishReason::error, error);
  }
  settle_finished();
}

void Scheduler::preempt_youngest() {
  Request youngest = std::move(active_.back());
  active_.pop_back();
  tree_.erase(youngest.leaf);
  youngest.leaf = tree_.end();
  engine_.release_sequence(youngest.generation->sequence());
  youngest.generation->detach();
  waiting_.push_front(std::move(youngest));
  ++stats_.preemptions;
}

void Scheduler::finish_step(double seconds) {
  int64_t prompt_rows = 0;
  for (const Share& share : shares_) prompt_rows += share.is_prompt ? share.rows : 0;
  const auto rows = static_cast<double>(rows_.size());
  budget_.record(prompt_rows, seconds);
  stats_.computed_prompt_tokens += prompt_rows;
  stats_.prefill_seconds += seconds * static_cast<double>(prompt_rows) / rows;
  stats_.decode_seconds += seconds * (rows - static_cast<double>(prompt_rows)) / rows;
  int wanted = 0;
  for (const Share& share : shares_) {
    Generation& generation = *share.generation;
    const std::optional<int64_t> boundary = generation.next_boundary();
    generation.advance(share.rows);
    if (boundary == generation.held()) engine_.take_snapshot(generation.sequence());
    if (!share.wants_logits) continue;
    generation.accept(engine_.logits(wanted++), scratch_);
    ++stats_.generated_tokens;
  }
}

void Scheduler::fail_step(const base::Error& error) {
  for (const Share& share : shares_) share.generation->finish(FinishReason::error, error);
}

// --- prefixes

void Scheduler::settle_finished() {
  for (Request& request : active_) {
    if (request.generation->finished()) keep_or_release(request);
  }
  const auto finished = [](const Request& request) { return request.generation->finished(); };
  std::erase_if(active_, finished);
  std::erase_if(waiting_, finished);
  stats_.active = static_cast<int64_t>(active_.size());
  stats_.queued = static_cast<int64_t>(waiting_.size());
}

void Scheduler::keep_or_release(Request& request) {
  const Generation& generation = *request.generation;
  const int32_t sequence = generation.sequence();
  tree_.erase(request.leaf);
  ++clock_;
  const auto tokens = generation.tokens().first(static_cast<size_t>(engine_.length(sequence)));
  // Of one that failed nobody knows what its sequence holds.
  if (generation.failed() || tokens.empty() || options_.prompt_cache_bytes <= 0)
    return engine_.release_sequence(sequence);
  PrefixTree::Leaf leaf{generation.request().cache_space,
                        {tokens.begin(), tokens.end()},
                        sequence,
                        true,
                        rank_of(clock_, tokens.size())};
  if (is_covered(leaf)) return engine_.release_sequence(sequence);
  tree_.insert(std::move(leaf));
  trim_prefixes();
}

// Whether another kept leaf holds all of this one. Those that this one holds all of are released.
bool Scheduler::is_covered(const PrefixTree::Leaf& leaf) {
  const auto length = static_cast<int64_t>(leaf.tokens.size());
  std::vector<PrefixTree::Handle> inner;
  bool covered = false;
  tree_.visit_matches(leaf.space, leaf.tokens, [&](PrefixTree::Handle other, int64_t shared) {
    if (!other->is_kept) return true;
    if (shared == length && engine_.reentry_position(other->sequence, length) == length) {
      other->rank = std::max(other->rank, leaf.rank);
      covered = true;
    } else if (shared == static_cast<int64_t>(other->tokens.size()) &&
               engine_.reentry_position(leaf.sequence, shared) == shared) {
      inner.push_back(other);
    }
    return !covered;
  });
  if (!covered) std::for_each(inner.begin(), inner.end(), [&](auto other) { release_leaf(other); });
  return covered;
}

std::vector<int32_t> Scheduler::kept_sequences() const {
  std::vector<int32_t> kept;
  for (const PrefixTree::Leaf& leaf : tree_.leaves()) {
    if (leaf.is_kept) kept.push_back(leaf.sequence);
  }
  return kept;
}

int64_t Scheduler::kept_bytes() const { return engine_.bytes_held(kept_sequences()); }

void Scheduler::trim_prefixes() {
  for (;;) {
    const std::vector<int32_t> kept = kept_sequences();
    stats_.kept_prefixes = static_cast<int64_t>(kept.size());
    stats_.kept_tokens = tree_.kept_tokens();
    if (options_.prompt_cache_bytes == kUnlimited || kept.empty() ||
        engine_.bytes_held(kept) <= options_.prompt_cache_bytes)
      return;
    evict_prefix(tree_.end());
  }
}

PrefixTree::Handle Scheduler::unsaved_prefix() const {
  PrefixTree::Handle best = tree_.end();
  if (options_.saved == nullptr) return best;
  for (auto leaf = tree_.leaves().begin(); leaf != tree_.end(); ++leaf) {
    const bool is_worth_it = static_cast<int64_t>(leaf->tokens.size()) >= kWorthWaiting;
    if (!leaf->is_kept || leaf->is_saved || !is_worth_it) continue;
    if (best == tree_.end() || leaf->rank > best->rank) best = leaf;
  }
  return best;
}

bool Scheduler::has_unsaved_prefixes() const { return unsaved_prefix() != tree_.end(); }

bool Scheduler::save_prefix_blocking() {
  const PrefixTree::Handle leaf = unsaved_prefix();
  if (leaf == tree_.end()) return false;
  options_.saved->save_blocking(leaf->space, leaf->tokens, leaf->sequence);
  leaf->is_saved = true;  // or was refused, and would be again
  return true;
}

bool Scheduler::evict_prefix(PrefixTree::Handle spared) {
  PrefixTree::Handle lowest = tree_.end();
  for (auto leaf = tree_.leaves().begin(); leaf != tree_.end(); ++leaf) {
    if (!leaf->is_kept || leaf == spared) continue;
    if (lowest == tree_.end() || leaf->rank < lowest->rank) lowest = leaf;
  }
  if (lowest == tree_.end()) return false;
  release_leaf(lowest);
  return true;
}

void Scheduler::release_leaf(PrefixTree::Handle leaf) {
  engine_.release_sequence(leaf->sequence);
  tree_.erase(leaf);
}

void Scheduler::drop_prefixes() {
  while (evict_prefix(tree_.end())) {
  }
}

base::Result<decode::GenerationResult> generate_blocking(
    Scheduler& scheduler, decode::GenerationRequest request,
    std::function<void(const decode::TokenEvent&)> on_token) {
  std::optional<decode::GenerationResult> result;
  decode::GenerationListener listener;
  listener.on_token = std::move(on_token);
  listener.on_finish = [&](const decode::GenerationResult& r) { result = r; };
  RAFTER_TRY(scheduler.submit(std::move(request), std::move(listener)));
  while (!result) scheduler.step();
  if (result->error) return *result->error;
  return std::move(*result);
}

}  // namespace rafter::sched

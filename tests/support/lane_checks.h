// Random schedules through the lane on an engine with a clock of its own, and what must hold of every one.
#pragma once

#include <random>
#include <string>

#include "tests/support/generation_checks.h"

namespace rafter::decode {

// A step takes `base` seconds and `per_row` for each of its rows, sometimes half as much again; every engine
// call that must not happen is an error of FakeEngine. Records what the store holds.
class TimedEngine : public FakeEngine {
 public:
  using FakeEngine::FakeEngine;
  base::Status step(std::span<const engine::Row> rows) override {
    now += (base_seconds + row_seconds * static_cast<double>(rows.size())) * (noise() % 4 == 0 ? 1.5 : 1.0);
    RAFTER_TRY(FakeEngine::step(rows));
    most_held = std::max(most_held, positions_held());
    return {};
  }

  double now = 0, base_seconds = 0.02, row_seconds = 0.002;
  int64_t most_held = 0;
  std::mt19937 noise{5};
};

struct LanePlan {
  unsigned seed = 0;
  int64_t batch = 4;
  int64_t store = 1 << 20;  // positions of all sequences
  int64_t prompt_cache = 0;
  size_t sequences = 64;
  int64_t requests = 30;
  bool failures = false;  // of steps, and logits that are no numbers
  bool cancels = true;
};

// Some prompts share long prefixes.
inline GenerationRequest lane_request(std::mt19937& random, int i) {
  GenerationRequest request;
  const int32_t family = static_cast<int32_t>(random() % 4);
  const int64_t shared = random() % 2 == 0 ? 0 : 30 + 20 * family;
  for (int64_t n = 0; n < shared; ++n)
    request.prompt.push_back((family * 50 + static_cast<int32_t>(n)) % 290);
  const int64_t own = 1 + static_cast<int64_t>(random() % (random() % 5 == 0 ? 600 : 60));
  for (int64_t n = 0; n < own; ++n)
    request.prompt.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(kVocabulary)));
  request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = static_cast<uint64_t>(i) * 77;
  request.max_tokens = 1 + static_cast<int64_t>(random() % 60);
  request.overflow = GenerationRequest::Overflow::finish;
  request.ignore_end = true;
  for (int64_t boundary : {shared, shared + own / 2}) request.boundaries.push_back(boundary);
  return request;
}

// Empty if this schedule broke nothing: every request is finished once and gives what it gives alone; memory
// is never exceeded; no stream waits longer than the gap allows while others compute their prompts; cancelled
// requests end within a step; sequences are all released.
inline std::string lane_faults(TimedEngine& engine, const LanePlan& plan) {
  struct Story {
    GenerationRequest request;
    uint64_t id = 0;
    std::vector<int32_t> tokens;
    std::optional<GenerationResult> result;
    int finishes = 0;
    bool cancelled = false;
    double last_token = -1, longest_gap = 0;
    int64_t cancelled_at = -1, finished_at = -1;
  };
  std::mt19937 random(plan.seed);
  engine.total_positions = plan.store;
  engine.store_positions = plan.store;
  engine.max_sequences = plan.sequences;
  std::string faults;
  std::vector<Story> stories(static_cast<size_t>(plan.requests));
  {
    sched::Scheduler lane(engine, {byte_tokenizer(), {}},
                          {.batch = plan.batch, .prompt_cache_bytes = plan.prompt_cache, .now = [&engine] {
                             return engine.now;
                           }});
    int64_t steps = 0;
    size_t submitted = 0;
    const auto submit = [&] {
      const size_t i = submitted++;
      Story& story = stories[i];
      story.request = lane_request(random, static_cast<int>(i));
      GenerationListener listener;
      listener.on_token = [&story, &engine](const TokenEvent& event) {
        if (event.token) story.tokens.push_back(*event.token);
        if (story.last_token >= 0)
          story.longest_gap = std::max(story.longest_gap, engine.now - story.last_token);
        story.last_token = engine.now;
      };
      listener.on_finish = [&story, &steps](const GenerationResult& result) {
        story.result = result;
        story.finished_at = steps;
        ++story.finishes;
      };
      const auto id = lane.submit(story.request, listener);
      if (!id.ok()) {
        ++story.finishes;  // refused before any work
        if (static_cast<int64_t>(story.request.prompt.size()) + 60 <= plan.store) faults += "refused ";
        return;
      }
      story.id = *id;
    };
    while (submitted < stories.size() || !lane.idle()) {
      while (submitted < stories.size() && (lane.idle() || random() % 6 == 0)) submit();
      if (plan.cancels && random() % 20 == 0) {
        Story& story = stories[random() % submitted];
        story.cancelled = true;
        if (story.finishes == 0) story.cancelled_at = steps + 1;
        lane.cancel(story.id);
      }
      if (plan.failures && random() % 40 == 0) {
        engine.fail_at_step = engine.steps + 1;
        engine.failure = {base::ErrorCode::internal, "broken", "engine", ""};
      }
      ++steps;
      lane.step();
      if (lane.stats().active > plan.batch) faults += "batch ";
      if (steps > 100000) return faults + "never ends";
    }
    const bool memory_was_short = lane.stats().preemptions > 0;
    for (size_t i = 0; i < stories.size(); ++i) {
      const Story& story = stories[i];
      const auto say = [&](const char* what) { faults += fmt::format("{} of request {} ", what, i); };
      if (story.finishes != 1) say("number of ends");
      if (!story.result) continue;
      const GenerationResult& result = *story.result;
      if (result.tokens != story.tokens) say("tokens told");
      if (story.cancelled_at >= 0 && story.finished_at > story.cancelled_at) say("late cancellation");
      if (result.reason == FinishReason::error && !plan.failures) say("error");
      if (!memory_was_short && story.longest_gap > 0.25 + 1e-9) say("gap");
      if (result.reason == FinishReason::cancelled && !story.cancelled) say("cancellation");
      const GenerationResult alone = run_alone(story.request);
      const auto common = std::min(result.tokens.size(), alone.tokens.size());
      if (!std::equal(result.tokens.begin(), result.tokens.begin() + static_cast<std::ptrdiff_t>(common),
                      alone.tokens.begin()))
        say("tokens");
      if (result.reason == FinishReason::length && result.tokens.size() != alone.tokens.size()) say("length");
    }
  }
  if (engine.most_held > plan.store) faults += "memory ";
  if (!engine.sequences.empty()) faults += "sequences leaked ";
  return faults;
}

}  // namespace rafter::decode

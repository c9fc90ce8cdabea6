// Checkers of the lane that take the engine to run on, so that faulty engines can be put under
// them.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sched/scheduler.h"
#include "tests/support/fake_engine.h"

namespace rafter::decode {

inline constexpr int64_t kVocabulary = 300;

inline GenerationRequest greedy(std::vector<int32_t> prompt, std::optional<int64_t> max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

// Requests of many lengths and settings, the i-th always the same.
inline GenerationRequest varied_request(int i) {
  std::mt19937 random(static_cast<unsigned>(i) + 100);
  GenerationRequest request;
  const int length = 1 + static_cast<int>(random() % 40);
  for (int n = 0; n < length; ++n) request.prompt.push_back(static_cast<int32_t>(random() % kVocabulary));
  request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
  request.sampling.top_p = i % 2 == 0 ? 0.0f : 0.8f;
  request.sampling.repetition = {i % 4 == 0 ? 1.3f : 0.0f, 20};
  request.sampling.seed = static_cast<uint64_t>(i) * 77;
  request.max_tokens = 1 + static_cast<int64_t>(random() % 30);
  return request;
}

inline GenerationResult run_alone(const GenerationRequest& request, int64_t chunk = 0) {
  FakeEngine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
  sched::Scheduler lane(engine, {byte_tokenizer(), {7}}, {.prefill_chunk = chunk});
  return generate_blocking(lane, request).value();
}

// Empty if every request gives in company (on `engine`) what it gives alone; else the first difference.
inline std::string company_differences(FakeEngine& engine, int64_t chunk) {
  constexpr int kRequests = 24;
  sched::Scheduler lane(engine, {byte_tokenizer(), {7}}, {.prefill_chunk = chunk});
  std::vector<GenerationResult> together(kRequests);
  int submitted = 0;
  const auto submit = [&] {  // requests join while others are under way
    const int i = submitted++;
    const auto keep = [&together, i](const GenerationResult& result) {
      together[static_cast<size_t>(i)] = result;
    };
    return lane.submit(varied_request(i), {.on_finish = keep}).ok();
  };
  for (int i = 0; i < 6; ++i) {
    if (!submit()) return "refused";
  }
  while (lane.step() || submitted < kRequests) {
    if (submitted < kRequests && !submit()) return "refused";
  }
  for (int i = 0; i < kRequests; ++i) {
    const GenerationResult alone = run_alone(varied_request(i));
    const GenerationResult& result = together[static_cast<size_t>(i)];
    const bool same = result.tokens == alone.tokens && result.text == alone.text &&
                      result.seed == alone.seed && result.logits_hash == alone.logits_hash &&
                      result.reason == alone.reason;
    if (!same) return fmt::format("request {}", i);
  }
  return "";
}

// Empty if prompts that share prefixes give on `engine` what they give afresh, and reuse as much as they can;
// else what differs. `most` sequences that the engine has.
inline std::string reuse_differences(FakeEngine& engine, size_t most) {
  engine.max_sequences = most;
  sched::Scheduler lane(engine, {byte_tokenizer(), {}}, {.prompt_cache_bytes = 1 << 20});
  std::string differences;
  const auto run = [&](std::vector<int32_t> prompt, size_t cached) {
    GenerationRequest request = greedy(std::move(prompt), 6);
    const GenerationResult fresh = run_alone(request);
    const GenerationResult result = generate_blocking(lane, request).value();
    if (result.tokens != fresh.tokens || result.logits_hash != fresh.logits_hash) differences += "tokens ";
    if (static_cast<size_t>(result.cached_tokens) != cached) {
      differences += fmt::format("cached {} instead of {} ", result.cached_tokens, cached);
    }
    for (const auto& leaf : lane.prefixes().leaves()) {
      if (engine.sequences.at(leaf.sequence) != leaf.tokens) differences += "record ";
    }
    if (lane.prefixes().leaves().size() != engine.sequences.size()) differences += "sequences ";
    return result;
  };
  std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  const GenerationResult first = run(prompt, 0);
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());  // the conversation goes on
  prompt.push_back(9);
  run(prompt, 10);                 // the last sampled token was never fed
  run(prompt, prompt.size() - 1);  // the same again: its last token is computed
  run({1, 2, 3, 200, 5}, 3);       // another branch
  run({1, 2}, 1);                  // shorter than what is kept
  run({50}, 0);                    // nothing in common
  return differences;
}

}  // namespace rafter::decode

// A conversation that goes on after a restart, with its prefixes in a folder, and what must hold of it.
#pragma once

#include "sched/scheduler.h"
#include "tests/support/generation_checks.h"
#include "tests/support/temp_folder.h"

namespace rafter::decode {

inline std::shared_ptr<sched::SavedPrefixes> saved_prefixes(StepEngine& engine, const std::string& folder,
                                                            std::vector<std::string>* log = nullptr,
                                                            int64_t bytes = 1 << 30) {
  auto opened = sched::SavedPrefixes::open(engine, {folder, bytes, [log](const std::string& line) {
                                                      if (log != nullptr) log->push_back(line);
                                                    }});
  return std::make_shared<sched::SavedPrefixes>(std::move(opened).value());
}

inline sched::SchedulerOptions with_saved(std::shared_ptr<sched::SavedPrefixes> saved) {
  return {.prompt_cache_bytes = 1 << 30, .saved = std::move(saved)};
}

inline void save_all(sched::Scheduler& lane) {
  while (lane.save_prefix_blocking()) {
  }
}

inline std::vector<int32_t> numbered(size_t count, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((static_cast<size_t>(first) + 7 * i) % 250));
  return tokens;
}

// Three turns, a restart after each. Empty if every turn gives what it gives without a folder, and computes
// what is new of it only.
template <typename Engine>
std::string restart_faults() {
  const testing::TempFolder folder;
  std::vector<int32_t> conversation = numbered(150);
  size_t known = 0;
  for (int turn = 0; turn < 3; ++turn) {
    FakeEngine fresh(kVocabulary, 4096, 64, hashing_model(kVocabulary));
    sched::Scheduler without(fresh, {byte_tokenizer(), {}}, {});
    const auto expected = sched::generate_blocking(without, greedy(conversation, 20)).value();

    Engine engine(kVocabulary, 4096, 64, hashing_model(kVocabulary));
    const auto saved = saved_prefixes(engine, folder.path());
    sched::Scheduler lane(engine, {byte_tokenizer(), {}}, with_saved(saved));
    const auto result = sched::generate_blocking(lane, greedy(conversation, 20)).value();
    if (result.tokens != expected.tokens) return fmt::format("turn {} gives other tokens", turn);
    if (result.cached_tokens != static_cast<int64_t>(known))
      return fmt::format("turn {}: {} tokens were known and {} were taken", turn, known,
                         result.cached_tokens);
    save_all(lane);
    if (saved->files().size() != 1) return fmt::format("turn {}: {} files", turn, saved->files().size());
    conversation.insert(conversation.end(), result.tokens.begin(), result.tokens.end());
    known = conversation.size() - 1;  // the last token was never computed
    const std::vector<int32_t> next = numbered(40, turn);
    conversation.insert(conversation.end(), next.begin(), next.end());
  }
  return "";
}

}  // namespace rafter::decode

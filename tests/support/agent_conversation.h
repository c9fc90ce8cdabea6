// An agent's conversation, turn by turn through a lane, and how much of it was computed more than once.
#pragma once

#include <filesystem>
#include <functional>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "sched/scheduler.h"
#include "tests/support/fake_engine.h"
#include "tests/support/temp_folder.h"

namespace rafter::testing {

using decode::GenerationRequest;
using decode::GenerationResult;

// A copy of a tiny checkpoint that takes long conversations: it was trained on nothing, any context will do.
inline std::string copy_with_long_context(const std::string& path, const TempFolder& folder) {
  const std::string copy = folder / "model";
  std::filesystem::copy(path, copy, std::filesystem::copy_options::recursive);
  const std::string config = read_file(copy + "/config.json");
  folder.write("model/config.json",
               std::regex_replace(config, std::regex("\"max_position_embeddings\": *[0-9]+"),
                                  "\"max_position_embeddings\": 32768"));
  return copy;
}

// An agent's conversation as a chat template renders it: a long system part with tools; user messages, each
// followed by several rounds of calls and results. The reasoning of an answer stays while its round goes on
// and is left out from the next user message on.
class Conversation {
 public:
  explicit Conversation(unsigned seed) : random_(seed) { system_ = tokens_of(900); }

  void add_user() { messages_.push_back({kUser, tokens_of(20 + random_() % 40)}); }
  void add_tool_result() { messages_.push_back({kTool, tokens_of(40 + random_() % 120)}); }
  void add_answer(const std::vector<int32_t>& generated) { messages_.push_back({kAssistant, generated}); }

  // The prompt that asks for the next answer, with the places where later ones may branch off.
  GenerationRequest next_request() const {
    GenerationRequest request;
    std::vector<int32_t>& prompt = request.prompt;
    prompt = system_;
    request.boundaries.push_back(static_cast<int64_t>(prompt.size()));
    size_t last_user = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].role == kUser) last_user = i;
    }
    for (size_t i = 0; i < messages_.size(); ++i) {
      const Message& message = messages_[i];
      prompt.push_back(message.role);
      const bool is_stripped = message.role == kAssistant && i < last_user;
      if (message.role == kAssistant && !is_stripped) prompt.push_back(kThink);
      const size_t from = is_stripped ? kReasoning : 0;
      prompt.insert(prompt.end(), message.tokens.begin() + static_cast<std::ptrdiff_t>(from),
                    message.tokens.end());
      prompt.push_back(kEnd);
    }
    request.boundaries.push_back(static_cast<int64_t>(prompt.size()));
    prompt.insert(prompt.end(), {kAssistant, kThink});
    request.sampling.temperature = 0;
    request.max_tokens = 40;
    request.ignore_end = true;
    return request;
  }

 private:
  static constexpr int32_t kUser = 1, kTool = 2, kAssistant = 3, kThink = 4, kEnd = 5;
  static constexpr size_t kReasoning = 25;  // tokens of each answer
  struct Message {
    int32_t role;
    std::vector<int32_t> tokens;
  };
  std::vector<int32_t> tokens_of(size_t count) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = 10 + static_cast<int32_t>(random_() % 300);
    return tokens;
  }

  std::mt19937 random_;
  std::vector<int32_t> system_;
  std::vector<Message> messages_;
};

struct ReplayFigures {
  int turns = 0;
  int64_t prompt = 0;    // tokens of all prompts
  int64_t fresh = 0;     // that no earlier prompt or answer began with
  int64_t computed = 0;  // not found in the prefix cache
  double ratio() const { return static_cast<double>(computed) / static_cast<double>(fresh); }
};

// Forty turns, a user message every fifth; every seventh, the client asks for a title in between.
inline ReplayFigures replay_conversation(
    decode::StepEngine& engine,
    const std::function<void(int, const GenerationRequest&, const GenerationResult&)>& on_turn = {}) {
  sched::Scheduler lane(engine, {decode::byte_tokenizer(), {}}, {.prompt_cache_bytes = int64_t{256} << 20});
  Conversation conversation(4);
  std::vector<std::vector<int32_t>> seen;  // prompts with their answers
  ReplayFigures figures{.turns = 40};
  for (int turn = 0; turn < figures.turns; ++turn) {
    if (turn % 5 == 0) {
      conversation.add_user();
    } else {
      conversation.add_tool_result();
    }
    if (turn % 7 == 1) {
      GenerationRequest title;
      for (int32_t i = 0; i < 150; ++i) title.prompt.push_back(10 + (turn * 41 + i * i) % 300);
      title.max_tokens = 8;
      RAFTER_CHECK(sched::generate_blocking(lane, title).ok());
    }
    const GenerationRequest request = conversation.next_request();
    int64_t known = 0;
    for (const auto& tokens : seen) known = std::max(known, sched::common_prefix(tokens, request.prompt));
    const GenerationResult result = sched::generate_blocking(lane, request).value();
    figures.fresh += static_cast<int64_t>(request.prompt.size()) - known;
    figures.computed += result.prompt_tokens - result.cached_tokens;
    figures.prompt += result.prompt_tokens;
    if (on_turn) on_turn(turn, request, result);
    seen.push_back(request.prompt);
    seen.back().insert(seen.back().end(), result.tokens.begin(), result.tokens.end());
    conversation.add_answer(result.tokens);
  }
  return figures;
}

}  // namespace rafter::testing

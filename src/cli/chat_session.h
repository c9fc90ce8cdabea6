// A conversation with one model: its messages, and what the turns cost. The lane keeps what was computed of
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "decode/model_text.h"
#include "sched/scheduler.h"

namespace rafter::cli {

class ChatSession {
 public:
  // A piece of the answer, or of what the model thinks before it.
  using OnText = std::function<void(const std::string& text, bool is_reasoning)>;

  // `lane` and `text` must outlive the session. `settings`: a request without a prompt, used for every turn.
  ChatSession(sched::Scheduler& lane, const decode::ModelText& text, decode::GenerationRequest settings,
              decode::ChatSwitches switches, std::string system);

  // Asks and waits for the answer, which goes to on_text as it comes. A turn that was cancelled is kept with
  // what was said of it; one that failed or did not fit leaves the conversation as it was. Errors: the
  // template's, out_of_memory (the context is full), the engine's.
  base::Result<decode::GenerationResult> ask_blocking(const std::string& question, const OnText& on_text);

  // Forgets the turns, keeps the system message.
  void clear();
  // Replaces the system message (empty: none) and forgets the turns.
  void set_system(std::string system);
  const std::string& system() const { return system_; }

  struct Totals {
    int64_t turns = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
    double prefill_seconds = 0, decode_seconds = 0;
  };
  const Totals& totals() const { return totals_; }
  // Of the last turn; nothing before the first.
  const std::optional<decode::GenerationResult>& last() const { return last_; }
  int64_t positions_held() const { return lane_.prefixes().kept_tokens(); }

 private:
  void count(const decode::GenerationResult& result);

  sched::Scheduler& lane_;
  const decode::ModelText& text_;
  decode::GenerationRequest settings_;
  text::OutputFormat format_;
  decode::ChatSwitches switches_;
  std::string system_;
  std::vector<decode::ChatMessage> messages_;
  Totals totals_;
  std::optional<decode::GenerationResult> last_;
};

}  // namespace rafter::cli

#include "cli/chat_session.h"

namespace rafter::cli {

ChatSession::ChatSession(sched::Scheduler& lane, const decode::ModelText& text,
                         decode::GenerationRequest settings, std::string system)
    : lane_(lane), text_(text), settings_(std::move(settings)), system_(std::move(system)) {
  clear();
}

void ChatSession::clear() {
  messages_.clear();
  if (!system_.empty()) messages_.push_back({"system", system_});
}

void ChatSession::set_system(std::string system) {
  system_ = std::move(system);
  clear();
}

base::Result<decode::GenerationResult> ChatSession::ask_blocking(
    const std::string& question, const std::function<void(const std::string&)>& on_text) {
  std::vector<decode::ChatMessage> messages = messages_;
  messages.push_back({"user", question});
  decode::GenerationRequest request = settings_;
  RAFTER_ASSIGN(request.prompt, text_.chat_prompt(messages));
  RAFTER_ASSIGN(decode::GenerationResult result,
                sched::generate_blocking(lane_, std::move(request),
                                         [&](const decode::TokenEvent& event) { on_text(event.text); }));
  messages.push_back({"assistant", result.text});
  messages_ = std::move(messages);
  count(result);
  last_ = result;
  return result;
}

void ChatSession::count(const decode::GenerationResult& result) {
  ++totals_.turns;
  totals_.prompt_tokens += result.prompt_tokens;
  totals_.cached_tokens += result.cached_tokens;
  totals_.answer_tokens += static_cast<int64_t>(result.tokens.size());
  totals_.prefill_seconds += result.prefill_seconds;
  totals_.decode_seconds += result.decode_seconds;
}

}  // namespace rafter::cli

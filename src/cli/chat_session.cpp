#include "cli/chat_session.h"

namespace rafter::cli {

ChatSession::ChatSession(sched::Scheduler& lane, const decode::ModelText& text,
                         decode::GenerationRequest settings, decode::ChatSwitches switches,
                         std::string system)
    : lane_(lane),
      text_(text),
      settings_(std::move(settings)),
      format_(text.output_format()),
      switches_(switches),
      system_(std::move(system)) {
  // Markers that are special tokens reach the parser as text.
  if (format_.reasoning != nullptr) settings_.kept_markers = text::kept_markers(format_);
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

base::Result<decode::GenerationResult> ChatSession::ask_blocking(const std::string& question,
                                                                 const OnText& on_text) {
  std::vector<decode::ChatMessage> messages = messages_;
  messages.push_back({"user", question});
  decode::GenerationRequest request = settings_;
  RAFTER_ASSIGN(decode::ChatPrompt prompt, text_.chat_turn(messages, switches_));
  request.prompt = std::move(prompt.tokens);

  text::OutputParserOptions options;
  options.parse_calls = false;  // no tools are offered
  options.start = prompt.start;
  text::OutputParser parser(format_, options);
  decode::ChatMessage answer{"assistant", ""};
  const auto take = [&](const std::vector<text::OutputEvent>& events) {
    for (const text::OutputEvent& event : events) {
      const bool is_reasoning = event.kind == text::OutputEvent::Kind::reasoning;
      (is_reasoning ? answer.reasoning : answer.content) += event.text;
      on_text(event.text, is_reasoning);
    }
  };
  RAFTER_ASSIGN(decode::GenerationResult result,
                sched::generate_blocking(lane_, std::move(request), [&](const decode::TokenEvent& event) {
                  take(parser.push(event.text));
                }));
  take(parser.finish());
  messages.push_back(std::move(answer));
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

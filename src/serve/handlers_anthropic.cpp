// Anthropic's routes.
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/anthropic_messages.h"

namespace rafter::serve::handlers {

void messages(Front& front, RoutedRequest request, Exchange exchange) {
  const auto read = [](const Json& body) -> base::Result<Asked> {
    RAFTER_ASSIGN(Ask ask, parse_messages(body, /*counts_only=*/false));
    return Asked{std::move(ask), messages_reply()};
  };
  AskReader reader{read, anthropic_error, request.client()};
  start_generation(front, std::move(request.http.body), std::move(exchange), std::move(reader));
}

// Answers while the model is busy, or not there.
void count_message_tokens(Front& front, RoutedRequest request, Exchange exchange) {
  const size_t bytes = request.http.body.size();
  answer_aside(
      front, std::move(exchange), bytes,
      [&front, client = request.client(), text = std::move(request.http.body)]() -> base::Result<Json> {
        RAFTER_ASSIGN(const Json body, parse_body(text));
        RAFTER_ASSIGN(Ask ask, parse_messages(body, /*counts_only=*/true));
        ask.client = client;
        RAFTER_ASSIGN(const BuiltPrompt prompt, build_prompt(front, ask));
        return Json{{"input_tokens", prompt.tokens.size()}};
      },
      anthropic_error);
}

}  // namespace rafter::serve::handlers

// Anthropic's routes.
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/anthropic_messages.h"

namespace rafter::serve::handlers {
namespace {

void respond_claude_error(HttpExchange& exchange, const base::Error& error) {
  const ApiError shown = api_error(error);
  exchange.respond(error_response(shown, anthropic_error(shown)));
}

base::Result<Ask> read_ask(const RoutedRequest& request, bool counts_only) {
  RAFTER_ASSIGN(const Json body, parse_body(request.http.body));
  return parse_messages(body, counts_only);
}

}  // namespace

void messages(Front& front, RoutedRequest request, Exchange exchange) {
  auto ask = read_ask(request, false);
  if (!ask.ok()) return respond_claude_error(*exchange, ask.error());
  start_generation(front, std::move(*ask), messages_reply(), std::move(exchange));
}

// Answers while the model is busy, or not there.
void count_message_tokens(Front& front, RoutedRequest request, Exchange exchange) {
  auto ask = read_ask(request, true);
  if (!ask.ok()) return respond_claude_error(*exchange, ask.error());
  build_prompt_aside(front, std::move(*ask), std::move(exchange),
                     [](HttpExchange& asker, base::Result<BuiltPrompt> prompt) {
                       if (!prompt.ok()) return respond_claude_error(asker, prompt.error());
                       respond_json(asker, {{"input_tokens", prompt->tokens.size()}});
                     });
}

}  // namespace rafter::serve::handlers

// Ollama's routes.
#include "base/version.h"
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/ollama.h"

namespace rafter::serve::handlers {
namespace {

void respond_ollama_error(HttpExchange& exchange, const base::Error& error) {
  const ApiError shown = api_error(error);
  exchange.respond(error_response(shown, ollama_error(shown.message)));
}

OllamaModel model_of(const Front& front) {
  return {model_card(front), front.options().family, front.options().quantization,
          std::string(front.text().template_source())};
}

void ask_model(Front& front, const RoutedRequest& request, Exchange exchange,
               base::Result<Ask> (*parse)(const Json&), std::unique_ptr<Reply> reply) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_ollama_error(*exchange, body.error());
  auto ask = parse(*body);
  if (!ask.ok()) return respond_ollama_error(*exchange, ask.error());
  if (is_ollama_load(*ask)) return respond_json(*exchange, ollama_loaded(front.options().model_id));
  start_generation(front, std::move(*ask), std::move(reply), std::move(exchange));
}

}  // namespace

void ollama_chat(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, request, std::move(exchange), parse_ollama_chat, ollama_chat_reply());
}

void ollama_generate(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, request, std::move(exchange), parse_ollama_generate, ollama_generate_reply());
}

void ollama_tags(Front& front, RoutedRequest, Exchange exchange) {
  respond_json(*exchange, serve::ollama_tags(model_of(front)));
}

void ollama_show(Front& front, RoutedRequest, Exchange exchange) {
  respond_json(*exchange, serve::ollama_show(model_of(front)));
}

void ollama_version(Front&, RoutedRequest, Exchange exchange) {
  respond_json(*exchange, {{"version", base::version()}});
}

}  // namespace rafter::serve::handlers

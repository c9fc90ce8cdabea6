// Ollama's routes.
#include "base/version.h"
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/ollama.h"

namespace rafter::serve::handlers {
namespace {

OllamaModel model_of(const Front& front) {
  return {model_card(front), front.options().family, front.options().quantization,
          std::string(front.text().template_source())};
}

Json error_body(const ApiError& error) { return ollama_error(error.message); }

void ask_model(Front& front, RoutedRequest request, Exchange exchange,
               base::Result<Ask> (*parse)(const Json&), std::unique_ptr<Reply> (*reply)()) {
  const auto read = [parse, reply,
                     model = front.options().model_id](const Json& body) -> base::Result<Asked> {
    RAFTER_ASSIGN(Ask ask, parse(body));
    Asked asked{std::move(ask), reply()};
    if (is_ollama_load(asked.ask)) asked.at_once = HttpResponse{200, to_text(ollama_loaded(model))};
    return asked;
  };
  AskReader reader{read, error_body, request.client()};
  start_generation(front, std::move(request.http.body), std::move(exchange), std::move(reader));
}

}  // namespace

void ollama_chat(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, std::move(request), std::move(exchange), parse_ollama_chat, ollama_chat_reply);
}

void ollama_generate(Front& front, RoutedRequest request, Exchange exchange) {
  ask_model(front, std::move(request), std::move(exchange), parse_ollama_generate, ollama_generate_reply);
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

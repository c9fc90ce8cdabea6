// OpenAI's routes.
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/openai_chat.h"
#include "serve/proto/openai_completions.h"
#include "serve/proto/openai_models.h"

namespace rafter::serve::handlers {
namespace {

ModelCard card_of(const Front& front) {
  const auto& facts = front.service().facts();
  return {.id = front.options().model_id,
          .created = front.started_at(),
          .context = front.context(),
          .trained_context = front.options().trained_context,
          .reasoning = front.format().reasoning != nullptr,
          .tools = std::string_view(front.format().family_name()) != "none",
          .embeddings = facts && facts->is_embedder};
}

}  // namespace

void chat_completions(Front& front, RoutedRequest request, Exchange exchange) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_error(*exchange, api_error(body.error()));
  auto chat = parse_chat(*body);
  if (!chat.ok()) return respond_error(*exchange, api_error(chat.error()));
  start_generation(front, std::move(chat->ask), chat_reply(chat->options), std::move(exchange));
}

void completions(Front& front, RoutedRequest request, Exchange exchange) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_error(*exchange, api_error(body.error()));
  auto completion = parse_completion(*body);
  if (!completion.ok()) return respond_error(*exchange, api_error(completion.error()));
  start_generation(front, std::move(completion->ask), completion_reply(completion->options),
                   std::move(exchange));
}

void models(Front& front, RoutedRequest, Exchange exchange) {
  respond_json(*exchange, models_json(card_of(front), front.options().other_models));
}

void model(Front& front, RoutedRequest request, Exchange exchange) {
  const FrontOptions& options = front.options();
  for (const std::string& alias : options.aliases) {
    if (alias == request.rest) request.rest = options.model_id;
  }
  if (request.rest == options.model_id) return respond_json(*exchange, model_json(card_of(front)));
  for (const std::string& other : options.other_models) {
    if (other == request.rest)
      return respond_json(
          *exchange,
          {{"id", other}, {"object", "model"}, {"created", front.started_at()}, {"owned_by", "rafter"}});
  }
  respond_error(*exchange, {404, "no such model", "not_found_error", "model_not_found", "model"});
}

}  // namespace rafter::serve::handlers

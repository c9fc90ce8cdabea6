// OpenAI's routes.
#include "serve/generation_task.h"
#include "serve/handlers.h"
#include "serve/proto/openai_chat.h"
#include "serve/proto/openai_completions.h"
#include "serve/proto/openai_embeddings.h"
#include "serve/proto/openai_models.h"
#include "serve/proto/openai_responses.h"

namespace rafter::serve::handlers {
namespace {

// What an embedding is made of: the text, and the token that ends one.
base::Result<std::vector<int32_t>> embedding_tokens(
    const decode::ModelText& text, const std::string& instruction,
    const std::variant<std::string, std::vector<int32_t>>& input) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&input)) {
    for (const int32_t id : *ids) {
      if (id >= text.tokenizer().vocab_size())
        return field_error("input", "has a token id that is not in the vocabulary");
    }
    return *ids;
  }
  std::string whole = std::get<std::string>(input);
  if (!instruction.empty()) whole = "Instruct: " + instruction + "\nQuery:" + whole;
  RAFTER_ASSIGN(std::vector<int32_t> tokens,
                text.tokenizer().encode(whole, /*add_special=*/false, text::SpecialTokens::as_text));
  const std::vector<int32_t>& suffix = text.tokenizer().suffix();
  const std::optional<int32_t> end_of_text = text.tokenizer().token_id("<|endoftext|>");
  if (!suffix.empty()) {
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
  } else if (end_of_text) {
    tokens.push_back(*end_of_text);
  }
  return tokens;
}

// The inputs of one request, one after the other: each waits for the one in front of it.
struct EmbeddingTask : std::enable_shared_from_this<EmbeddingTask> {
  EmbeddingTask(Front& server, EmbeddingsAsk request, Exchange client)
      : front(server), ask(std::move(request)), exchange(std::move(client)) {}

  void next() {
    if (exchange->closed()) return;
    if (vectors.size() == ask.inputs.size())
      return respond_json(*exchange,
                          embeddings_json(front.options().model_id, vectors, ask.base64, token_count));
    auto tokens = embedding_tokens(front.text(), ask.instruction, ask.inputs[vectors.size()]);
    if (!tokens.ok()) return respond_error(*exchange, api_error(tokens.error()));
    token_count += static_cast<int64_t>(tokens->size());
    front.service().embed(
        std::move(*tokens), [self = shared_from_this()](base::Result<std::vector<float>> vector) {
          if (!vector.ok()) return respond_error(*self->exchange, api_error(vector.error()));
          const auto width = static_cast<int64_t>(vector->size());
          if (self->ask.dimensions && *self->ask.dimensions != width) {
            return respond_error(
                *self->exchange,
                api_error(field_error("dimensions", "must be the model's " + std::to_string(width))));
          }
          self->vectors.push_back(std::move(*vector));
          self->next();
        });
  }

  Front& front;
  EmbeddingsAsk ask;
  Exchange exchange;
  std::vector<std::vector<float>> vectors;
  int64_t token_count = 0;
};

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

void responses(Front& front, RoutedRequest request, Exchange exchange) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_error(*exchange, api_error(body.error()));
  const auto previous_id = previous_response_id(*body);
  if (!previous_id.ok()) return respond_error(*exchange, api_error(previous_id.error()));
  const StoredResponse* previous = nullptr;
  if (!previous_id->empty()) {
    previous = front.responses().find(*previous_id, unix_seconds());
    if (previous == nullptr)
      return respond_error(*exchange, {404, "no response with the id " + *previous_id, "not_found_error",
                                       "previous_response_not_found", "previous_response_id"});
  }
  auto parsed = parse_responses(*body, previous);
  if (!parsed.ok()) return respond_error(*exchange, api_error(parsed.error()));
  const auto ask = std::make_shared<ResponsesAsk>(std::move(*parsed));
  auto reply = responses_reply(ask->echo);
  Reply* const writer = reply.get();  // lives as long as the answer is written
  std::function<void(const Answer&)> keep;
  if (ask->store) {
    keep = [&front, ask, writer](const Answer& answer) {
      Json response = writer->whole(answer);
      const std::string id = response["id"];
      front.responses().put(id, stored_response(*ask, answer, std::move(response)), unix_seconds());
    };
  }
  start_generation(front, std::move(ask->ask), std::move(reply), std::move(exchange), std::move(keep));
}

void get_response(Front& front, RoutedRequest request, Exchange exchange) {
  const StoredResponse* found = front.responses().find(request.rest, unix_seconds());
  if (found == nullptr)
    return respond_error(*exchange, {404, "no such response", "not_found_error", "not_found", "id"});
  respond_json(*exchange, found->response);
}

void delete_response(Front& front, RoutedRequest request, Exchange exchange) {
  if (!front.responses().erase(request.rest))
    return respond_error(*exchange, {404, "no such response", "not_found_error", "not_found", "id"});
  respond_json(*exchange, {{"id", request.rest}, {"object", "response.deleted"}, {"deleted", true}});
}

void embeddings(Front& front, RoutedRequest request, Exchange exchange) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_error(*exchange, api_error(body.error()));
  auto ask = parse_embeddings(*body);
  if (!ask.ok()) return respond_error(*exchange, api_error(ask.error()));
  if (const base::Status known = front.check_model(ask->model); !known.ok())
    return respond_error(*exchange, api_error(known.error()));
  std::make_shared<EmbeddingTask>(front, std::move(*ask), std::move(exchange))->next();
}

// Answers while the model is busy, or not there.
void count_chat_tokens(Front& front, RoutedRequest request, Exchange exchange) {
  const auto body = parse_body(request.http.body);
  if (!body.ok()) return respond_error(*exchange, api_error(body.error()));
  base::Result<Ask> ask = base::Error{};
  if (body->contains("input")) {
    auto parsed = parse_responses(*body, nullptr);
    ask = parsed.ok() ? base::Result<Ask>(std::move(parsed->ask)) : parsed.error();
  } else {
    auto parsed = parse_chat(*body);
    ask = parsed.ok() ? base::Result<Ask>(std::move(parsed->ask)) : parsed.error();
  }
  if (!ask.ok()) return respond_error(*exchange, api_error(ask.error()));
  build_prompt_aside(
      front, std::move(*ask), std::move(exchange), [](HttpExchange& asker, base::Result<BuiltPrompt> prompt) {
        if (!prompt.ok()) return respond_error(asker, api_error(prompt.error()));
        respond_json(asker, {{"object", "response.input_tokens"}, {"input_tokens", prompt->tokens.size()}});
      });
}

void models(Front& front, RoutedRequest, Exchange exchange) {
  respond_json(*exchange, models_json(model_card(front), front.options().other_models));
}

void model(Front& front, RoutedRequest request, Exchange exchange) {
  const FrontOptions& options = front.options();
  for (const std::string& alias : options.aliases) {
    if (alias == request.rest) request.rest = options.model_id;
  }
  if (request.rest == options.model_id) return respond_json(*exchange, model_json(model_card(front)));
  for (const std::string& other : options.other_models) {
    if (other == request.rest)
      return respond_json(
          *exchange,
          {{"id", other}, {"object", "model"}, {"created", front.started_at()}, {"owned_by", "rafter"}});
  }
  respond_error(*exchange, {404, "no such model", "not_found_error", "model_not_found", "model"});
}

}  // namespace rafter::serve::handlers

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

// What one request for embeddings needs, read and encoded on a helper thread.
struct PreparedEmbeddings {
  EmbeddingsAsk ask;
  std::vector<std::vector<int32_t>> inputs;
};

base::Result<PreparedEmbeddings> prepare_embeddings(const Front& front, const std::string& text) {
  RAFTER_ASSIGN(const Json body, parse_body(text));
  PreparedEmbeddings prepared;
  RAFTER_ASSIGN(prepared.ask, parse_embeddings(body));
  RAFTER_TRY(front.check_model(prepared.ask.model));
  for (const auto& input : prepared.ask.inputs) {
    RAFTER_ASSIGN(prepared.inputs.emplace_back(),
                  embedding_tokens(front.text(), prepared.ask.instruction, input));
  }
  return prepared;
}

// The inputs of one request, one after the other: each waits for the one in front of it.
struct EmbeddingTask : std::enable_shared_from_this<EmbeddingTask> {
  EmbeddingTask(Front& server, PreparedEmbeddings request, Exchange client)
      : front(server),
        ask(std::move(request.ask)),
        inputs(std::move(request.inputs)),
        exchange(std::move(client)) {}

  void next() {
    if (exchange->closed()) return;
    if (vectors.size() == inputs.size()) return respond();
    std::vector<int32_t> tokens = std::move(inputs[vectors.size()]);
    token_count += static_cast<int64_t>(tokens.size());
    front.service().embed(
        std::move(tokens), [self = shared_from_this()](base::Result<std::vector<float>> vector) {
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

  void respond() {
    answer_aside(front, exchange, /*bytes=*/0, [self = shared_from_this()]() -> base::Result<Json> {
      return embeddings_json(self->front.options().model_id, self->vectors, self->ask.base64,
                             self->token_count);
    });
  }

  Front& front;
  EmbeddingsAsk ask;
  std::vector<std::vector<int32_t>> inputs;
  Exchange exchange;
  std::vector<std::vector<float>> vectors;
  int64_t token_count = 0;
};

// The response that a request continues is not there (any more).
Asked without_previous(const std::string& id) {
  const ApiError error{404, "no response with the id " + id, "not_found_error", "previous_response_not_found",
                       "previous_response_id"};
  Asked asked;
  asked.at_once = error_response(error, openai_error(error));
  return asked;
}

base::Result<Asked> read_responses(ResponseStore& store, const Json& body) {
  RAFTER_ASSIGN(const std::string previous_id, previous_response_id(body));
  const auto previous = previous_id.empty() ? nullptr : store.find(previous_id, unix_seconds());
  if (!previous_id.empty() && previous == nullptr) return without_previous(previous_id);
  RAFTER_ASSIGN(ResponsesAsk parsed, parse_responses(body, previous.get()));
  const auto ask = std::make_shared<ResponsesAsk>(std::move(parsed));
  Asked asked{std::move(ask->ask), responses_reply(ask->echo)};
  if (ask->store) {
    Reply* const writer = asked.reply.get();  // lives as long as the answer is written
    asked.on_answer = [&store, ask, writer](const Answer& answer) {
      Json response = writer->whole(answer);
      const std::string id = response["id"];
      store.put(id, stored_response(*ask, answer, std::move(response)), unix_seconds());
    };
  }
  return asked;
}

// The conversation of either of OpenAI's protocols.
base::Result<Ask> read_conversation(const Json& body) {
  if (body.contains("input")) {
    RAFTER_ASSIGN(ResponsesAsk parsed, parse_responses(body, nullptr));
    return std::move(parsed.ask);
  }
  RAFTER_ASSIGN(ChatAsk parsed, parse_chat(body));
  return std::move(parsed.ask);
}

}  // namespace

void chat_completions(Front& front, RoutedRequest request, Exchange exchange) {
  const auto read = [](const Json& body) -> base::Result<Asked> {
    RAFTER_ASSIGN(ChatAsk chat, parse_chat(body));
    return Asked{std::move(chat.ask), chat_reply(chat.options)};
  };
  AskReader reader{read, openai_error, request.client()};
  start_generation(front, std::move(request.http.body), std::move(exchange), std::move(reader));
}

void completions(Front& front, RoutedRequest request, Exchange exchange) {
  const auto read = [](const Json& body) -> base::Result<Asked> {
    RAFTER_ASSIGN(CompletionAsk completion, parse_completion(body));
    return Asked{std::move(completion.ask), completion_reply(completion.options)};
  };
  AskReader reader{read, openai_error, request.client()};
  start_generation(front, std::move(request.http.body), std::move(exchange), std::move(reader));
}

void responses(Front& front, RoutedRequest request, Exchange exchange) {
  const auto read = [&store = front.responses()](const Json& body) { return read_responses(store, body); };
  AskReader reader{read, openai_error, request.client()};
  start_generation(front, std::move(request.http.body), std::move(exchange), std::move(reader));
}

void get_response(Front& front, RoutedRequest request, Exchange exchange) {
  const auto found = front.responses().find(request.rest, unix_seconds());
  if (found == nullptr)
    return respond_error(*exchange, {404, "no such response", "not_found_error", "not_found", "id"});
  answer_aside(front, std::move(exchange), /*bytes=*/0,
               [found]() -> base::Result<Json> { return found->response; });
}

void delete_response(Front& front, RoutedRequest request, Exchange exchange) {
  if (!front.responses().erase(request.rest))
    return respond_error(*exchange, {404, "no such response", "not_found_error", "not_found", "id"});
  respond_json(*exchange, {{"id", request.rest}, {"object", "response.deleted"}, {"deleted", true}});
}

void embeddings(Front& front, RoutedRequest request, Exchange exchange) {
  const size_t bytes = request.http.body.size();
  const bool taken = front.loop().run_aside(
      [&front, exchange, body = std::move(request.http.body)] {
        auto prepared = std::make_shared<base::Result<PreparedEmbeddings>>(prepare_embeddings(front, body));
        front.loop().post([&front, exchange, prepared] {
          if (!prepared->ok()) return respond_error(*exchange, api_error(prepared->error()));
          std::make_shared<EmbeddingTask>(front, std::move(**prepared), exchange)->next();
        });
      },
      bytes);
  if (!taken) respond_error(*exchange, api_error(too_many_to_read()));
}

// Answers while the model is busy, or not there.
void count_chat_tokens(Front& front, RoutedRequest request, Exchange exchange) {
  const size_t bytes = request.http.body.size();
  answer_aside(
      front, std::move(exchange), bytes,
      [&front, client = request.client(), text = std::move(request.http.body)]() -> base::Result<Json> {
        RAFTER_ASSIGN(const Json body, parse_body(text));
        RAFTER_ASSIGN(Ask ask, read_conversation(body));
        ask.client = client;
        RAFTER_ASSIGN(const BuiltPrompt prompt, build_prompt(front, ask));
        return Json{{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.size()}};
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

// What the routes do, by file: handlers_openai.cpp, handlers_status.cpp, …
#pragma once

#include "serve/routes.h"

namespace rafter::serve::handlers {

// Runs `work` on a helper thread, where the answer is made text too, and sends it. `bytes`: of the request
// that it reads. Too much waits already: 429.
void answer_aside(Front& front, Exchange exchange, size_t bytes, std::function<base::Result<Json>()> work,
                  Json (*error_body)(const ApiError&) = openai_error);

// OpenAI
void chat_completions(Front& front, RoutedRequest request, Exchange exchange);
void completions(Front& front, RoutedRequest request, Exchange exchange);
void responses(Front& front, RoutedRequest request, Exchange exchange);
void get_response(Front& front, RoutedRequest request, Exchange exchange);
void delete_response(Front& front, RoutedRequest request, Exchange exchange);
void embeddings(Front& front, RoutedRequest request, Exchange exchange);
void count_chat_tokens(Front& front, RoutedRequest request, Exchange exchange);
void models(Front& front, RoutedRequest request, Exchange exchange);
void model(Front& front, RoutedRequest request, Exchange exchange);

// Anthropic
void messages(Front& front, RoutedRequest request, Exchange exchange);
void count_message_tokens(Front& front, RoutedRequest request, Exchange exchange);

// Ollama
void ollama_chat(Front& front, RoutedRequest request, Exchange exchange);
void ollama_generate(Front& front, RoutedRequest request, Exchange exchange);
void ollama_tags(Front& front, RoutedRequest request, Exchange exchange);
void ollama_show(Front& front, RoutedRequest request, Exchange exchange);
void ollama_version(Front& front, RoutedRequest request, Exchange exchange);

// llama.cpp, and the tokenizer
void llama_completion(Front& front, RoutedRequest request, Exchange exchange);
void llama_infill(Front& front, RoutedRequest request, Exchange exchange);
void tokenize(Front& front, RoutedRequest request, Exchange exchange);
void detokenize(Front& front, RoutedRequest request, Exchange exchange);
void props(Front& front, RoutedRequest request, Exchange exchange);
void fit(Front& front, RoutedRequest request, Exchange exchange);
void openapi(Front& front, RoutedRequest request, Exchange exchange);

// The server itself
void index(Front& front, RoutedRequest request, Exchange exchange);
void health(Front& front, RoutedRequest request, Exchange exchange);
void ready(Front& front, RoutedRequest request, Exchange exchange);
void stats(Front& front, RoutedRequest request, Exchange exchange);
void metrics(Front& front, RoutedRequest request, Exchange exchange);

}  // namespace rafter::serve::handlers

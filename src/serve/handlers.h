// What the routes do, by file: handlers_openai.cpp, handlers_status.cpp, …
#pragma once

#include "serve/routes.h"

namespace rafter::serve::handlers {

// OpenAI
void chat_completions(Front& front, RoutedRequest request, Exchange exchange);
void completions(Front& front, RoutedRequest request, Exchange exchange);
void models(Front& front, RoutedRequest request, Exchange exchange);
void model(Front& front, RoutedRequest request, Exchange exchange);

// Anthropic
void messages(Front& front, RoutedRequest request, Exchange exchange);
void count_message_tokens(Front& front, RoutedRequest request, Exchange exchange);

// The server itself
void index(Front& front, RoutedRequest request, Exchange exchange);
void health(Front& front, RoutedRequest request, Exchange exchange);
void ready(Front& front, RoutedRequest request, Exchange exchange);
void stats(Front& front, RoutedRequest request, Exchange exchange);
void metrics(Front& front, RoutedRequest request, Exchange exchange);

}  // namespace rafter::serve::handlers

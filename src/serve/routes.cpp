#include "serve/routes.h"

#include "serve/handlers.h"

namespace rafter::serve {

using namespace handlers;  // NOLINT: this file is the table of them

std::string RoutedRequest::client() const {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = http.header("authorization");
  if (given.empty()) return std::string(http.header("x-api-key"));
  return std::string(given.size() > kScheme.size() ? given.substr(kScheme.size()) : given);
}

std::span<const Route> routes() {
  // clang-format off
  static constexpr Route kRoutes[] = {
      // method, path, handler, summary, body, answer, needs a key, may stream
      {"GET", "/health", health, "Always 200; `state` says how the model is.", nullptr, "Health", false},
      {"GET", "/ready", ready, "503 until the model serves.", nullptr, "Ready", false},
      {"GET", "/v1", handlers::index, "What this server is."},
      {"GET", "/openapi.json", openapi, "This description."},
      {"GET", "/stats", stats, "Figures of the server and its model."},
      {"GET", "/metrics", metrics, "The same for Prometheus."},
      {"GET", "/fit", fit, "What a context takes, and how fast it would be (?ctx=N).", nullptr, "Fit"},
      {"GET", "/props", props, "The model's template, special tokens and defaults."},

      {"GET", "/v1/models", models, "The served model first.", nullptr, "ModelList"},
      {"GET", "/v1/models/{id}", model, "One model.", nullptr, "Model"},
      {"POST", "/v1/chat/completions", chat_completions, "OpenAI chat.", "ChatRequest", "ChatCompletion", true, true},
      {"POST", "/chat/completions", chat_completions, "The same.", "ChatRequest", "ChatCompletion", true, true},
      {"POST", "/v1/chat/completions/input_tokens", count_chat_tokens, "The prompt's length.", "ChatRequest", "TokenCount"},
      {"POST", "/v1/completions", completions, "Text to continue.", "CompletionRequest", "Completion", true, true},
      {"POST", "/v1/responses", responses, "OpenAI responses.", "ResponsesRequest", "Response", true, true},
      {"POST", "/v1/responses/input_tokens", count_chat_tokens, "The prompt's length.", "ResponsesRequest", "TokenCount"},
      {"GET", "/v1/responses/{id}", get_response, "A stored response.", nullptr, "Response"},
      {"DELETE", "/v1/responses/{id}", delete_response, "Forgets it."},
      {"POST", "/v1/embeddings", embeddings, "Vectors of texts.", "EmbeddingsRequest", "Embeddings"},

      {"POST", "/v1/messages", messages, "Anthropic messages.", "MessagesRequest", "Message", true, true},
      {"POST", "/v1/messages/count_tokens", count_message_tokens, "The prompt's length.", "CountRequest", "TokenCount"},

      {"POST", "/api/chat", ollama_chat, "Ollama chat.", "OllamaChatRequest", nullptr, true, true},
      {"POST", "/api/generate", ollama_generate, "Ollama text.", "OllamaGenerateRequest", nullptr, true, true},
      {"GET", "/api/tags", ollama_tags, "Ollama's list of models."},
      {"POST", "/api/show", ollama_show, "The model, as Ollama describes one.", "OllamaShowRequest"},
      {"GET", "/api/version", ollama_version, "For clients of Ollama."},

      {"POST", "/completion", llama_completion, "llama.cpp text.", "LlamaCompletionRequest", "LlamaCompletion", true, true},
      {"POST", "/infill", llama_infill, "llama.cpp fill in the middle.", "LlamaInfillRequest", "LlamaCompletion", true, true},
      {"POST", "/tokenize", tokenize, "Text to tokens.", "TokenizeRequest", "Tokens"},
      {"POST", "/detokenize", detokenize, "Tokens to text.", "DetokenizeRequest", "Text"},
  };
  // clang-format on
  return kRoutes;
}

}  // namespace rafter::serve

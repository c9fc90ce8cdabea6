#include "serve/routes.h"

#include "serve/handlers.h"

namespace rafter::serve {

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/health", handlers::health, "Always 200; `state` says how the model is.", nullptr, "Health",
       false},
      {"GET", "/ready", handlers::ready, "503 until the model serves.", nullptr, "Ready", false},
      {"GET", "/v1", handlers::index, "What this server is."},
      {"GET", "/stats", handlers::stats, "Figures of the server and its model."},
      {"GET", "/metrics", handlers::metrics, "The same for Prometheus."},
      {"GET", "/v1/models", handlers::models, "The served model first.", nullptr, "ModelList"},
      {"GET", "/v1/models/{id}", handlers::model, "One model.", nullptr, "Model"},
      {"POST", "/v1/chat/completions", handlers::chat_completions, "OpenAI chat.", "ChatRequest",
       "ChatCompletion", true, true},
      {"POST", "/chat/completions", handlers::chat_completions, "The same.", "ChatRequest", "ChatCompletion",
       true, true},
      {"POST", "/v1/completions", handlers::completions, "Text to continue.", "CompletionRequest",
       "Completion", true, true},
      {"POST", "/v1/messages", handlers::messages, "Anthropic messages.", "MessagesRequest", "Message", true,
       true},
      {"POST", "/v1/messages/count_tokens", handlers::count_message_tokens, "The prompt's length.",
       "CountRequest", "TokenCount"},
  };
  return kRoutes;
}

}  // namespace rafter::serve

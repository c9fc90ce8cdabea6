// Ollama's /api/chat, /api/generate, /api/tags and /api/show: answers are lines of JSON.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/openai_models.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// Errors: invalid_argument.
base::Result<Ask> parse_ollama_chat(const Json& body);
// An ask with an empty prompt is one to load the model, which is loaded: answer with ollama_loaded.
base::Result<Ask> parse_ollama_generate(const Json& body);
bool is_ollama_load(const Ask& ask);

std::unique_ptr<Reply> ollama_chat_reply();
std::unique_ptr<Reply> ollama_generate_reply();
Json ollama_loaded(const std::string& model);

struct OllamaModel {
  ModelCard card;
  std::string family, quantization;
  std::string chat_template;
};
Json ollama_tags(const OllamaModel& model);
Json ollama_show(const OllamaModel& model);
Json ollama_error(const std::string& message);

}  // namespace rafter::serve

// GET /v1/models and /v1/models/{id}.
#pragma once

#include <string>
#include <vector>

#include "serve/proto/json.h"

namespace rafter::serve {

struct ModelCard {
  std::string id;
  int64_t created = 0;          // seconds since 1970
  int64_t context = 0;          // usable positions; 0: not known yet
  int64_t trained_context = 0;  // 0: not known
  bool reasoning = false, tools = false, embeddings = false;
};

// One model: the window under every name that clients look for, and what the model can do.
Json model_json(const ModelCard& card);
// The served model first, then others that are only named.
Json models_json(const ModelCard& served, const std::vector<std::string>& others);

}  // namespace rafter::serve

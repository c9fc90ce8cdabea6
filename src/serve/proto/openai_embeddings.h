// POST /v1/embeddings.
#pragma once

#include <variant>
#include <vector>

#include "serve/proto/ask.h"

namespace rafter::serve {

struct EmbeddingsAsk {
  std::vector<std::variant<std::string, std::vector<int32_t>>> inputs;
  bool base64 = false;
  std::string instruction;  // of queries: "Instruct: …\nQuery:" in front of each text
  std::optional<int64_t> dimensions;
  std::string model;
};

// Errors: invalid_argument.
base::Result<EmbeddingsAsk> parse_embeddings(const Json& body);

// `vectors` as the request has its inputs.
Json embeddings_json(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64,
                     int64_t tokens);

// RFC 4648 section 4, with padding.
std::string encode_base64(std::string_view bytes);

}  // namespace rafter::serve

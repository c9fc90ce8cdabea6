// llama.cpp's /completion and /infill, which editors speak.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// Errors: invalid_argument; unsupported (grammars).
base::Result<Ask> parse_llama_completion(const Json& body);
base::Result<Ask> parse_llama_infill(const Json& body);

std::unique_ptr<Reply> llama_reply();

}  // namespace rafter::serve

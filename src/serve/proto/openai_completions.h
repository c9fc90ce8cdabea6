// POST /v1/completions: text to continue as it is.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

struct CompletionOptions {
  bool include_usage = false, logprobs = false;
  std::string echo = {};  // the prompt's text, sent first
};

struct CompletionAsk {
  Ask ask;
  CompletionOptions options;
};

// Errors: invalid_argument.
base::Result<CompletionAsk> parse_completion(const Json& body);

std::unique_ptr<Reply> completion_reply(const CompletionOptions& options);

}  // namespace rafter::serve

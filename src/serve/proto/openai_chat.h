// POST /v1/chat/completions.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

struct ChatOptions {
  bool include_usage = false;  // an extra chunk without choices, as OpenAI sends it
  bool logprobs = false;
};

struct ChatAsk {
  Ask ask;
  ChatOptions options;
};

// Unknown fields are ignored. Errors: invalid_argument, which names the field; unsupported.
base::Result<ChatAsk> parse_chat(const Json& body);

std::unique_ptr<Reply> chat_reply(const ChatOptions& options);

}  // namespace rafter::serve

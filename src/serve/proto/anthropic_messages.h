// POST /v1/messages and /v1/messages/count_tokens: Anthropic's protocol.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/reply.h"

namespace rafter::serve {

// Blocks become messages in OpenAI's form: a tool_use a call, a tool_result a tool message where it occurs, a
// thinking block the reasoning of its message (the template decides whether it is shown again).
// `counts_only`: max_tokens may be missing. Errors: invalid_argument.
base::Result<Ask> parse_messages(const Json& body, bool counts_only);

std::unique_ptr<Reply> messages_reply();

}  // namespace rafter::serve

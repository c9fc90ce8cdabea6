// POST /v1/responses: OpenAI's stateful protocol.
#pragma once

#include "serve/proto/ask.h"
#include "serve/proto/reply.h"
#include "serve/proto/response_store.h"

namespace rafter::serve {

struct ResponsesAsk {
  Ask ask;
  Json echo = Json::object();     // the request's fields as the response repeats them
  Json messages = Json::array();  // the conversation without instructions, to be continued
  std::string instructions;
  bool store = true;
};

// The id that the request continues; empty if none. Errors: invalid_argument.
base::Result<std::string> previous_response_id(const Json& body);

// `previous`: what that id stands for, or null. Errors: invalid_argument.
base::Result<ResponsesAsk> parse_responses(const Json& body, const StoredResponse* previous);

std::unique_ptr<Reply> responses_reply(const Json& echo);

// What is kept of an answer: `response` as `whole` wrote it.
StoredResponse stored_response(const ResponsesAsk& ask, const Answer& answer, Json response);

}  // namespace rafter::serve

// An error as a client sees it: a status and the parts of a body, which each protocol writes in its own
// shape.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "serve/proto/json.h"

namespace rafter::serve {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type = "server_error";    // invalid_request_error, not_found_error, memory_admission, …
  std::string code = {};                // for programs; may be empty
  std::string param = {};               // the field at fault; may be empty
  std::optional<int> retry_after = {};  // seconds, with 429 and 503

  bool operator==(const ApiError&) const = default;
};

// By the error's code: 400 invalid_request_error, 404, 429, 503, 400 memory_admission (context_over_budget)
// for what does not fit, 500 for the rest.
ApiError api_error(const base::Error& error);

// {"error": {"message", "type", "param", "code"}}
Json openai_error(const ApiError& error);
// {"type": "error", "error": {"type", "message"}}
Json anthropic_error(const ApiError& error);

}  // namespace rafter::serve

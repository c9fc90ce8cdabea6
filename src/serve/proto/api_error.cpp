#include "serve/proto/api_error.h"

namespace rafter::serve {
namespace {

constexpr int kRetryBusy = 1, kRetryUnavailable = 5;  // seconds

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

ApiError api_error(const base::Error& error) {
  const std::string message = error.hint.empty() ? error.what : error.what + " (" + error.hint + ")";
  switch (error.code) {
    case base::ErrorCode::invalid_argument:
      return {400, message, "invalid_request_error", "", error.where};
    case base::ErrorCode::unsupported:
      return {400, message, "invalid_request_error", "unsupported", error.where};
    case base::ErrorCode::not_found:
      return {404, message, "not_found_error", "not_found", error.where};
    case base::ErrorCode::out_of_memory:
      return {400, message, "memory_admission", "context_over_budget"};
    case base::ErrorCode::busy:
      return {429, message, "rate_limit_error", "queue_full", "", kRetryBusy};
    case base::ErrorCode::unavailable:
      return {503, message, "server_error", "model_unavailable", "", kRetryUnavailable};
    case base::ErrorCode::invalid_data:
    case base::ErrorCode::io:
    case base::ErrorCode::interrupted:
    case base::ErrorCode::internal:
      break;
  }
  return {500, message, "server_error"};
}

Json openai_error(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

Json anthropic_error(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}}};
}

}  // namespace rafter::serve

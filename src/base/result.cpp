#include "base/result.h"

namespace rafter::base {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::invalid_data:
      return "invalid_data";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io:
      return "io";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

std::string Error::message() const {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

}  // namespace rafter::base

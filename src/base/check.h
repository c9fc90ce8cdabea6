// RAFTER_CHECK: an invariant of our own code. It stays on in release, says what it saw and aborts. Anything
// that comes from outside (files, flags, requests, devices) is a Result instead; see base/result.h.
#pragma once

#include <string>

#include <fmt/format.h>

namespace rafter::base {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace rafter::base

// RAFTER_CHECK(condition) or RAFTER_CHECK(condition, "format", arguments…).
#define RAFTER_CHECK(condition, ...)                                                               \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      ::rafter::base::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                              \
  } while (false)

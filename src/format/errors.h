// Shorthand for the errors of file readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.h"

namespace rafter::format {

template <typename... Arguments>
base::Error invalid(std::string where, fmt::format_string<Arguments...> what, Arguments&&... arguments) {
  return {base::ErrorCode::invalid_data, fmt::format(what, std::forward<Arguments>(arguments)...),
          std::move(where), ""};
}

template <typename... Arguments>
base::Error unsupported(std::string where, fmt::format_string<Arguments...> what, Arguments&&... arguments) {
  return {base::ErrorCode::unsupported, fmt::format(what, std::forward<Arguments>(arguments)...),
          std::move(where), ""};
}

// A name from a file, fit for a message: control characters and malformed UTF-8 replaced, long names cut.
std::string printable(std::string_view name);

// "model.safetensors: model.norm.weight"
inline std::string where_in(std::string_view file, std::string_view name) {
  return fmt::format("{}: {}", file, printable(name));
}

// a · b, or false where it does not fit.
inline bool multiply_fits(uint64_t a, uint64_t b, uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace rafter::format

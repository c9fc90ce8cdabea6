// A check for integer flags of the full 64 bits. The parser itself makes -1 the largest unsigned number and
// anything too large the largest number there is, without a word.
#pragma once

#include <charconv>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace rafter::cli {

// Empty if `text` is a decimal integer that an Integer holds, else what is wrong: a CLI11 validator.
template <typename Integer>
std::string check_exact_integer(const std::string& text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("\"{}\" is not an integer from {} to {}", text, std::numeric_limits<Integer>::min(),
                     std::numeric_limits<Integer>::max());
}

}  // namespace rafter::cli

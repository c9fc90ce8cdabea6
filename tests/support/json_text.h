// Whether a text is JSON as RFC 8259 has it, whatever the size of its numbers: nlohmann::json refuses those
// that no double holds.
#pragma once

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>

namespace rafter::testing {

// Every well-formed number outside strings becomes 0; all else stays.
inline std::string without_numbers(std::string_view text) {
  static const std::regex number("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
  std::string out;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (!in_string && (c == '-' || (c >= '0' && c <= '9'))) {
      const size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
      const std::string token(text.substr(at, end - at));
      out += std::regex_match(token, number) ? "0" : token;
      at = end - 1;
      continue;
    }
    if (c == '"') in_string = !in_string;
    out += c;
    if (in_string && c == '\\' && at + 1 < text.size()) out += text[++at];
  }
  return out;
}

inline bool is_json_text(std::string_view text) {
  return nlohmann::json::accept(text) || nlohmann::json::accept(without_numbers(text));
}

}  // namespace rafter::testing

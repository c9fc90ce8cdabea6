#include "text/pattern.h"

namespace rafter::text {

base::Result<Pattern> Pattern::compile(const std::string& pattern, bool is_regex, const std::string& where) {
  if (is_regex) {
    RAFTER_ASSIGN(Regex regex, Regex::compile(pattern, where));
    return Pattern(std::move(regex));
  }
  if (pattern.empty()) {
    return base::Error{base::ErrorCode::invalid_data, "an empty string to look for", where, ""};
  }
  return Pattern(pattern);
}

base::Status Pattern::find_all(std::string_view text, std::vector<TextSpan>& matches) const {
  if (const auto* regex = std::get_if<Regex>(&pattern_)) return regex->find_all(text, matches);
  const auto& literal = std::get<std::string>(pattern_);
  matches.clear();
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size())) {
    matches.push_back({at, at + literal.size()});
  }
  return {};
}

}  // namespace rafter::text

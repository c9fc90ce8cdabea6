// What tokenizer files look for in text: a regular expression, or a literal.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/regex.h"

namespace rafter::text {

class Pattern {
 public:
  // Error: an empty literal; a regular expression that is malformed or outside what is supported.
  static base::Result<Pattern> compile(const std::string& pattern, bool is_regex, const std::string& where);

  // All matches, left to right, not overlapping. Error: a regular expression takes too long.
  base::Status find_all(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  explicit Pattern(std::variant<Regex, std::string> pattern) : pattern_(std::move(pattern)) {}

  std::variant<Regex, std::string> pattern_;  // a string is a literal
};

}  // namespace rafter::text

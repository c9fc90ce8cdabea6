// Python's str, as far as Unicode goes: which code points are spaces, letters, digits, and what their cases
// are.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_text.h"

namespace rafter::text::jinja {

bool is_space(char32_t c);       // str.isspace, and \s in patterns
bool is_line_break(char32_t c);  // where str.splitlines cuts
bool is_letter(char32_t c);      // str.isalpha
bool is_decimal(char32_t c);     // str.isdecimal: category Nd
bool is_digit(char32_t c);       // str.isdigit
bool is_numeric(char32_t c);     // str.isnumeric
bool is_alphanumeric(char32_t c);
bool is_word(char32_t c);  // \w in patterns
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_printable(char32_t c);  // str.isprintable: what repr leaves as it is
bool is_identifier(std::string_view name);

// Walks the code points of valid UTF-8.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) : text_(text) {}
  bool next(char32_t& code_point);
  size_t begin() const { return begin_; }  // byte range of the code point last read
  size_t end() const { return end_; }

 private:
  std::string_view text_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

size_t count_code_points(std::string_view text);

// Whole-string case mappings with Python's special cases (ß, final sigma, ligatures).
Text to_upper(const Text& text);
Text to_lower(const Text& text);
Text to_title(const Text& text);  // str.title: a letter after an uncased one is raised
Text to_capitalized(const Text& text);
Text to_swapped_case(const Text& text);
Text to_casefold(const Text& text);

}  // namespace rafter::text::jinja

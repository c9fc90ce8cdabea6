// The escapes of a string literal in a template, which are Python's.
#pragma once

#include <string>
#include <string_view>

namespace rafter::text::jinja {

// `literal` is what stands between the quotes. \n \t \\ \' \" \a \b \f \r \v, a backslash before a newline
// (both vanish), octal \ooo, \xHH, \uHHHH, \UHHHHHHHH; any other backslash stays. Fails on a cut-short or
// surrogate escape and on \N{…}.
std::string unescape_string_literal(std::string_view literal, int line);

}  // namespace rafter::text::jinja

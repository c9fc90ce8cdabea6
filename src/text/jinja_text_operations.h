// What str methods and text filters share: cutting, replacing and judging text.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

// Without leading and trailing spaces, or without the characters in `characters`.
Text strip_text(const Text& text, std::optional<std::string_view> characters, bool left, bool right,
                Meter& meter);
// The pieces between separators, at most `limit` cuts (negative: all); without a separator, runs of spaces
// separate and no piece is empty.
std::vector<ByteRange> split_text(std::string_view text, std::optional<std::string_view> separator,
                                  int64_t limit, bool from_right, Meter& meter);
// Lines as str.splitlines cuts them.
std::vector<ByteRange> line_ranges(std::string_view text, bool keep_ends, Meter& meter);
// At most `limit` replacements (negative: all).
Text replace_text(const Text& text, std::string_view old_part, const Text& new_part, int64_t limit,
                  Meter& meter);
Text center_text(const Text& text, int64_t width, const Text& fill, Meter& meter);

// str.isalnum and the like: false for an empty text, except where Python says otherwise.
bool text_is_alphanumeric(std::string_view text);
bool text_is_alphabetic(std::string_view text);
bool text_is_ascii(std::string_view text);
bool text_is_decimal(std::string_view text);
bool text_is_digits(std::string_view text);
bool text_is_lower(std::string_view text);
bool text_is_numeric(std::string_view text);
bool text_is_printable(std::string_view text);
bool text_is_space(std::string_view text);
bool text_is_title(std::string_view text);
bool text_is_upper(std::string_view text);

}  // namespace rafter::text::jinja

// Searching in UTF-8 by bytes, counted; and finding one's way by code points.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/jinja_value.h"

namespace rafter::text::jinja {

// First place at or after `from` where `part` stands; npos. Linear time.
size_t find_bytes(std::string_view text, std::string_view part, size_t from, Meter& meter);
// Last place where `part` stands and ends at or before `end`; npos.
size_t find_last_bytes(std::string_view text, std::string_view part, size_t end, Meter& meter);

inline size_t code_point_size(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Byte offset of code point `index` (0 to the number of code points).
size_t byte_offset(const String& string, size_t index, Meter& meter);
// The code point that begins at byte `offset`.
size_t code_point_index(const String& string, size_t offset, Meter& meter);

}  // namespace rafter::text::jinja

#include "text/jinja_search.h"

#include <cstring>

#include "text/jinja_unicode.h"

namespace rafter::text::jinja {

size_t find_bytes(std::string_view text, std::string_view part, size_t from, Meter& meter) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const char* begin = text.data() + from;
  const void* found = memmem(begin, text.size() - from, part.data(), part.size());
  const size_t at =
      found == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  meter.copy(at - from + part.size());
  return found == nullptr ? std::string_view::npos : at;
}

size_t find_last_bytes(std::string_view text, std::string_view part, size_t end, Meter& meter) {
  if (part.size() > end) return std::string_view::npos;
  for (size_t at = end - part.size();; --at) {
    if (text.substr(at, part.size()) == part) return at;
    if (at == 0) return std::string_view::npos;
    if (at % 64 == 0) meter.step(1 + part.size());
  }
}

size_t byte_offset(const String& string, size_t index, Meter& meter) {
  if (string.ascii()) return index;
  const std::string_view text = string.text.view();
  size_t offset = 0;
  for (; index > 0; --index) offset += code_point_size(text[offset]);
  meter.step(1 + offset / 16);  // slower than a copy
  return offset;
}

size_t code_point_index(const String& string, size_t offset, Meter& meter) {
  if (string.ascii()) return offset;
  meter.copy(offset);
  return count_code_points(string.text.view().substr(0, offset));
}

}  // namespace rafter::text::jinja

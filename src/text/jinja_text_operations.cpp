#include "text/jinja_text_operations.h"

#include <algorithm>
#include <set>

#include "text/jinja_format.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

// The code point that ends at `end`, and where it begins.
char32_t code_point_before(std::string_view text, size_t end, size_t& begin) {
  begin = end - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
  char32_t c = 0;
  CodePoints(text.substr(begin, end - begin)).next(c);
  return c;
}

template <typename Keep>
bool all_code_points(std::string_view text, Keep keep) {
  if (text.empty()) return false;
  char32_t c;
  for (CodePoints points(text); points.next(c);) {
    if (!keep(c)) return false;
  }
  return true;
}

std::vector<ByteRange> split_at_spaces(std::string_view text, int64_t limit) {
  std::vector<ByteRange> pieces;
  char32_t c;
  bool inside = false;
  for (CodePoints points(text); points.next(c);) {
    if (is_space(c)) {
      if (inside) pieces.back().end = points.begin();
      inside = false;
    } else if (!inside) {
      pieces.push_back({points.begin(), text.size()});
      inside = true;
      // The last piece keeps its inner spaces, and trailing ones too.
      if (limit >= 0 && pieces.size() > static_cast<size_t>(limit)) return pieces;
    }
  }
  return pieces;
}

std::vector<ByteRange> split_at_spaces_from_right(std::string_view text, int64_t limit) {
  std::vector<ByteRange> pieces;  // last one first
  bool inside = false;
  for (size_t end = text.size(), begin = 0; end > 0; end = begin) {
    if (is_space(code_point_before(text, end, begin))) {
      if (inside) pieces.back().begin = end;
      inside = false;
    } else if (!inside) {
      pieces.push_back({0, end});
      inside = true;
      if (limit >= 0 && pieces.size() > static_cast<size_t>(limit)) break;
    }
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<ByteRange> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                Meter& meter) {
  std::vector<ByteRange> pieces;
  size_t from = 0;
  while (limit < 0 || pieces.size() < static_cast<size_t>(limit)) {
    const size_t at = find_bytes(text, separator, from, meter);
    if (at == std::string_view::npos) break;
    pieces.push_back({from, at});
    from = at + separator.size();
  }
  pieces.push_back({from, text.size()});
  return pieces;
}

std::vector<ByteRange> split_at_from_right(std::string_view text, std::string_view separator, int64_t limit,
                                           Meter& meter) {
  std::vector<ByteRange> pieces;
  size_t end = text.size();
  while (limit < 0 || pieces.size() < static_cast<size_t>(limit)) {
    const size_t at = find_last_bytes(text, separator, end, meter);
    if (at == std::string_view::npos) break;
    pieces.push_back({at + separator.size(), end});
    end = at;
  }
  pieces.push_back({0, end});
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

Text strip_text(const Text& text, std::optional<std::string_view> characters, bool left, bool right,
                Meter& meter) {
  meter.copy(text.size());
  std::set<char32_t> unwanted;
  if (characters) {
    meter.step(1 + characters->size());
    char32_t c;
    for (CodePoints points(*characters); points.next(c);) unwanted.insert(c);
  }
  auto goes = [&](char32_t c) { return characters ? unwanted.contains(c) : is_space(c); };
  const std::string_view bytes = text.view();
  size_t begin = 0, end = bytes.size();
  if (left) {
    char32_t c;
    CodePoints points(bytes);
    while (points.next(c) && goes(c)) begin = points.end();
  }
  if (right) {
    for (size_t start = 0; end > begin && goes(code_point_before(bytes, end, start));) end = start;
  }
  return text.slice(begin, end);
}

std::vector<ByteRange> split_text(std::string_view text, std::optional<std::string_view> separator,
                                  int64_t limit, bool from_right, Meter& meter) {
  meter.copy(text.size());
  std::vector<ByteRange> pieces;
  if (separator) {
    pieces = from_right ? split_at_from_right(text, *separator, limit, meter)
                        : split_at(text, *separator, limit, meter);
  } else {
    pieces = from_right ? split_at_spaces_from_right(text, limit) : split_at_spaces(text, limit);
  }
  meter.step(pieces.size());
  return pieces;
}

std::vector<ByteRange> line_ranges(std::string_view text, bool keep_ends, Meter& meter) {
  meter.copy(text.size());
  std::vector<ByteRange> lines;
  size_t from = 0;
  char32_t c;
  for (CodePoints points(text); points.next(c);) {
    if (points.begin() < from || !is_line_break(c)) continue;
    size_t after = points.end();
    if (c == '\r' && after < text.size() && text[after] == '\n') ++after;
    lines.push_back({from, keep_ends ? after : points.begin()});
    from = after;
  }
  if (from < text.size()) lines.push_back({from, text.size()});
  meter.step(lines.size());
  return lines;
}

Text replace_text(const Text& text, std::string_view old_part, const Text& new_part, int64_t limit,
                  Meter& meter) {
  Builder out(meter);
  size_t from = 0;
  auto may_replace = [&] { return limit != 0; };
  auto put = [&] {
    out.append(new_part);
    if (limit > 0) --limit;
  };
  if (old_part.empty()) {  // before every code point, and at the end
    char32_t c;
    for (CodePoints points(text.view()); may_replace() && points.next(c);) {
      put();
      out.append(text, points.begin(), points.end());
      from = points.end();
    }
    if (may_replace() && from == text.size()) put();
  } else {
    while (may_replace()) {
      const size_t at = find_bytes(text.view(), old_part, from, meter);
      if (at == std::string_view::npos) break;
      out.append(text, from, at);
      put();
      from = at + old_part.size();
    }
  }
  out.append(text, from, text.size());
  return out.take();
}

Text center_text(const Text& text, int64_t width, const Text& fill, Meter& meter) {
  const auto size = static_cast<int64_t>(count_code_points(text.view()));
  if (width <= size) return text;
  const auto missing = static_cast<uint64_t>(width - size);
  const uint64_t left = missing / 2 + (missing & static_cast<uint64_t>(width) & 1);
  return pad_sides(text, left, missing - left, fill, meter);
}

bool text_is_alphanumeric(std::string_view text) { return all_code_points(text, is_alphanumeric); }
bool text_is_alphabetic(std::string_view text) { return all_code_points(text, is_letter); }
bool text_is_ascii(std::string_view text) {
  return text.empty() || all_code_points(text, [](char32_t c) { return c < 0x80; });
}
bool text_is_decimal(std::string_view text) { return all_code_points(text, is_decimal); }
bool text_is_digits(std::string_view text) { return all_code_points(text, is_digit); }
bool text_is_numeric(std::string_view text) { return all_code_points(text, is_numeric); }
bool text_is_printable(std::string_view text) { return text.empty() || all_code_points(text, is_printable); }
bool text_is_space(std::string_view text) { return all_code_points(text, is_space); }

bool text_is_lower(std::string_view text) {
  bool any = false;
  return all_code_points(text,
                         [&](char32_t c) {
                           any = any || is_lower(c);
                           return !is_upper(c) && !is_title(c);
                         }) &&
         any;
}

bool text_is_upper(std::string_view text) {
  bool any = false;
  return all_code_points(text,
                         [&](char32_t c) {
                           any = any || is_upper(c);
                           return !is_lower(c) && !is_title(c);
                         }) &&
         any;
}

bool text_is_title(std::string_view text) {
  bool any = false, after_cased = false;
  return all_code_points(text,
                         [&](char32_t c) {
                           const bool raised = is_upper(c) || is_title(c);
                           const bool fits = raised ? !after_cased : !is_lower(c) || after_cased;
                           after_cased = raised || is_lower(c);
                           any = any || after_cased;
                           return fits;
                         }) &&
         any;
}

}  // namespace rafter::text::jinja

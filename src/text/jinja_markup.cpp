// HTML: escaping and stripping.
#include <array>
#include <utility>

#include "base/utf8.h"
#include "text/jinja_format.h"
#include "text/jinja_number.h"
#include "text/jinja_print.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

std::string_view entity_for(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

// What the entity at text[at] stands for, and its length; nothing where there is none.
std::pair<std::string, size_t> resolve_entity(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames = {
      {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\xC2\xA0"}}};
  constexpr size_t kLongestEntity = 10;
  const size_t end = text.substr(0, kLongestEntity).find(';');
  if (end == std::string_view::npos) return {};
  const std::string_view name = text.substr(1, end - 1);
  for (const auto& [known, meaning] : kNames) {
    if (name == known) return {std::string(meaning), end + 1};
  }
  if (!name.starts_with('#') || name.size() < 2) return {};
  const bool hexadecimal = (name[1] | 0x20) == 'x';
  uint32_t c = 0;
  for (char digit : name.substr(hexadecimal ? 2 : 1)) {
    const int value = digit >= '0' && digit <= '9' ? digit - '0'
                      : hexadecimal && (digit | 0x20) >= 'a' && (digit | 0x20) <= 'f'
                          ? (digit | 0x20) - 'a' + 10
                          : -1;
    if (value < 0) return {};
    c = c * (hexadecimal ? 16 : 10) + static_cast<uint32_t>(value);
  }
  if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
  std::string meaning;
  base::append_utf8(meaning, c);
  return {meaning, end + 1};
}

Text without_tags(const Text& text, Meter& meter) {
  const std::string_view bytes = text.view();
  Builder kept(meter);
  size_t at = 0;
  while (true) {
    const size_t tag = bytes.find('<', at);
    if (tag == std::string_view::npos) break;
    const bool comment = bytes.substr(tag).starts_with("<!--");
    const size_t close = comment ? bytes.find("-->", tag + 4) : bytes.find('>', tag);
    if (close == std::string_view::npos) break;
    kept.append(text, at, tag);
    at = close + (comment ? 3 : 1);
  }
  kept.append(text, at, text.size());
  return kept.take();
}

Text with_single_spaces(const Text& text, Meter& meter) {
  Builder out(meter);
  bool pending = false;
  char32_t c;
  for (CodePoints points(text.view()); points.next(c);) {
    if (is_space(c)) {
      pending = true;
      continue;
    }
    if (pending && !out.text().empty()) out.append(" ");
    pending = false;
    out.append(text, points.begin(), points.end());
  }
  return out.take();
}

}  // namespace

Text escape_html(const Text& text, Meter& meter) {
  const std::string_view bytes = text.view();
  if (bytes.find_first_of("&<>'\"") == std::string_view::npos) return text;
  Builder out(meter);
  size_t plain = 0;
  for (size_t at = bytes.find_first_of("&<>'\""); at != std::string_view::npos;
       at = bytes.find_first_of("&<>'\"", at + 1)) {
    out.append(text, plain, at);
    out.append_as(entity_for(bytes[at]), text, at);
    plain = at + 1;
  }
  out.append(text, plain, text.size());
  return out.take();
}

Value escape_value(const Value& value, Runtime& runtime) {
  if (value.is_string() && value.as_string().markup) return value;
  return runtime.string(escape_html(to_text(value, runtime), runtime.meter), true);
}

Text strip_tags(const Text& text, Meter& meter) {
  const Text flat = with_single_spaces(without_tags(text, meter), meter);
  const std::string_view bytes = flat.view();
  Builder out(meter);
  size_t plain = 0;
  for (size_t at = bytes.find('&'); at != std::string_view::npos; at = bytes.find('&', at + 1)) {
    const auto [meaning, size] = resolve_entity(bytes.substr(at));
    if (size == 0) continue;
    out.append(flat, plain, at);
    out.append_as(meaning, flat, at);
    plain = at + size;
  }
  out.append(flat, plain, flat.size());
  return out.take();
}

}  // namespace rafter::text::jinja

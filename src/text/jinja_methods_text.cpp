// Methods of str. Positions are code points outside, bytes inside.
#include <algorithm>
#include <array>

#include "text/jinja_binder.h"
#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_search.h"
#include "text/jinja_text_operations.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

// A string like `self`: Markup if that is.
Value like(Runtime& runtime, const Value& self, Text text) {
  return runtime.string(std::move(text), self.as_string().markup);
}

Value list_like(Runtime& runtime, const Value& self, const std::vector<ByteRange>& pieces) {
  std::vector<Value> items;
  Charge charge(runtime.meter, pieces.size() * sizeof(Value));
  for (const ByteRange& piece : pieces) {
    items.push_back(like(runtime, self, self.as_string().text.slice(piece.begin, piece.end)));
  }
  return runtime.list(std::move(items));
}

template <Text (*kMap)(const Text&)>
Value map_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder("case", arguments, {});
  runtime.meter.copy(4 * self.text().size());
  return like(runtime, self, kMap(self.as_string().text));
}

template <bool (*kHolds)(std::string_view)>
Value predicate(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder("predicate", arguments, {});
  runtime.meter.copy(self.text().size());
  return Value::boolean(kHolds(self.text()));
}

template <bool kLeft, bool kRight>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("strip", arguments, {"/chars"});
  const bool given = bound.has(0) && !bound.at(0).is_none();
  return like(runtime, self,
              strip_text(self.as_string().text, given ? std::optional(bound.text(0)) : std::nullopt, kLeft,
                         kRight, runtime.meter));
}

template <bool kFromRight>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("split", arguments, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  const bool given = bound.has(0) && !bound.at(0).is_none();
  if (given && bound.text(0).empty()) fail(FailureKind::value, "empty separator");
  const auto separator = given ? std::optional(bound.text(0)) : std::nullopt;
  return list_like(runtime, self, split_text(self.text(), separator, limit, kFromRight, runtime.meter));
}

Value split_lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("splitlines", arguments, {"keepends"});
  return list_like(runtime, self, line_ranges(self.text(), bound.truth(0, false), runtime.meter));
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("replace", arguments, {"/old", "/new", "/count"}, 2);
  const bool markup = self.as_string().markup;
  bound.text(0);
  const Value replacement = markup ? escape_value(bound.at(1), runtime) : bound.at(1);
  if (!markup) bound.text(1);
  return like(runtime, self,
              replace_text(self.as_string().text, bound.text(0), replacement.as_string().text,
                           bound.integer(2, -1), runtime.meter));
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("join", arguments, {"/iterable"}, 1);
  Builder joined(runtime.meter);
  Value item;
  size_t index = 0;
  for (auto items = iterate(bound.at(0), runtime); items->next(item); ++index) {
    if (index != 0) joined.append(self.as_string().text);
    if (self.as_string().markup) {
      joined.append(escape_value(item, runtime).as_string().text);
    } else if (item.is_string()) {
      joined.append(item.as_string().text);
    } else {
      fail(FailureKind::type, "sequence item {}: expected str instance, {} found", index, item.type_name());
    }
  }
  return like(runtime, self, joined.take());
}

// The byte range that optional start and stop arguments (parameters 1 and 2) leave of a string; nothing if
// the start lies beyond the end.
std::optional<ByteRange> window(const Value& self, const Binder& bound, Meter& meter) {
  const auto size = static_cast<int64_t>(length(self));
  auto position = [&](size_t parameter, int64_t fallback) {
    int64_t index = fallback;
    if (bound.has(parameter) && !bound.at(parameter).is_none()) index = bound.integer(parameter, fallback);
    return index < 0 ? std::max<int64_t>(index + size, 0) : index;
  };
  const int64_t start = position(1, 0), stop = std::min(position(2, size), size);
  if (start > size || start > stop) return std::nullopt;
  const String& string = self.as_string();
  return ByteRange{byte_offset(string, static_cast<size_t>(start), meter),
                   byte_offset(string, static_cast<size_t>(stop), meter)};
}

template <bool kLast, bool kFails>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("find", arguments, {"/sub", "/start", "/end"}, 1);
  const std::string_view part = bound.text(0);
  size_t at = std::string_view::npos;
  if (auto range = window(self, bound, runtime.meter)) {
    const std::string_view visible = self.text().substr(0, range->end);
    at = kLast ? find_last_bytes(visible, part, range->end, runtime.meter)
               : find_bytes(visible, part, range->begin, runtime.meter);
    if (at != std::string_view::npos && at < range->begin) at = std::string_view::npos;
  }
  if (at != std::string_view::npos) {
    return Value::integer(static_cast<int64_t>(code_point_index(self.as_string(), at, runtime.meter)));
  }
  if (kFails) fail(FailureKind::value, "substring not found");
  return Value::integer(-1);
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("count", arguments, {"/sub", "/start", "/end"}, 1);
  const std::string_view part = bound.text(0);
  const auto range = window(self, bound, runtime.meter);
  if (!range) return Value::integer(0);
  const std::string_view visible = self.text().substr(0, range->end);
  if (part.empty()) {
    return Value::integer(static_cast<int64_t>(count_code_points(visible.substr(range->begin))) + 1);
  }
  int64_t found = 0;
  for (size_t at = find_bytes(visible, part, range->begin, runtime.meter); at != std::string_view::npos;
       at = find_bytes(visible, part, at + part.size(), runtime.meter)) {
    ++found;
  }
  return Value::integer(found);
}

template <bool kAtEnd>
Value starts_or_ends_with(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound(kAtEnd ? "endswith" : "startswith", arguments, {"/affix", "/start", "/end"}, 1);
  const auto range = window(self, bound, runtime.meter);
  auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      if (affix.is_undefined()) fail(FailureKind::undefined, "{}", affix.why_undefined());
      fail(FailureKind::type, "{} first arg must be str or a tuple of str, not {}",
           kAtEnd ? "endswith" : "startswith", affix.type_name());
    }
    if (!range) return false;
    const std::string_view visible = self.text().substr(range->begin, range->end - range->begin);
    return kAtEnd ? visible.ends_with(affix.text()) : visible.starts_with(affix.text());
  };
  if (!bound.at(0).is(Kind::tuple)) return Value::boolean(matches(bound.at(0)));
  const auto& affixes = bound.at(0).as_sequence().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool kSuffix>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("remove", arguments, {"/affix"}, 1);
  const std::string_view affix = bound.text(0), text = self.text();
  size_t begin = 0, end = text.size();
  if (kSuffix && text.ends_with(affix)) end -= affix.size();
  if (!kSuffix && text.starts_with(affix)) begin += affix.size();
  return like(runtime, self, self.as_string().text.slice(begin, end));
}

template <bool kLast>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("partition", arguments, {"/sep"}, 1);
  const std::string_view separator = bound.text(0), text = self.text();
  if (separator.empty()) fail(FailureKind::value, "empty separator");
  const Text& whole = self.as_string().text;
  const size_t at = kLast ? find_last_bytes(text, separator, text.size(), runtime.meter)
                          : find_bytes(text, separator, 0, runtime.meter);
  if (at == std::string_view::npos) {
    const Value empty = like(runtime, self, Text()), all = like(runtime, self, whole);
    return kLast ? runtime.tuple({empty, empty, all}) : runtime.tuple({all, empty, empty});
  }
  const size_t after = at + separator.size();
  return runtime.tuple({like(runtime, self, whole.slice(0, at)), like(runtime, self, whole.slice(at, after)),
                        like(runtime, self, whole.slice(after, whole.size()))});
}

template <char kAlign>
Value justify(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("justify", arguments, {"/width", "/fillchar"}, 1);
  const int64_t width = bound.integer(0, 0);
  const Text fill = bound.has(1) ? (bound.text(1), bound.at(1).as_string().text) : Text(" ");
  if (count_code_points(fill.view()) != 1) {
    fail(FailureKind::type, "the fill character must be exactly one character long");
  }
  const Text& text = self.as_string().text;
  if (kAlign == '^') return like(runtime, self, center_text(text, width, fill, runtime.meter));
  return like(runtime, self, pad(text, width, fill, kAlign, runtime.meter));
}

Value zero_fill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("zfill", arguments, {"/width"}, 1);
  const Text& text = self.as_string().text;
  const bool has_sign = text.view().starts_with('+') || text.view().starts_with('-');
  Text padded = pad(text.slice(has_sign ? 1 : 0, text.size()), bound.integer(0, 0) - (has_sign ? 1 : 0),
                    Text("0"), '>', runtime.meter);
  if (!has_sign) return like(runtime, self, std::move(padded));
  Text with_sign = text.slice(0, 1);
  with_sign.append(padded);
  return like(runtime, self, std::move(with_sign));
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("expandtabs", arguments, {"tabsize"});
  const int64_t size = bound.integer(0, 8);
  const Text& text = self.as_string().text;
  Builder out(runtime.meter);
  int64_t column = 0;
  char32_t c;
  for (CodePoints points(text.view()); points.next(c);) {
    if (c != '\t') {
      out.append(text, points.begin(), points.end());
      column = c == '\n' || c == '\r' ? 0 : column + 1;
      continue;
    }
    if (size <= 0) continue;
    const int64_t spaces = size - column % size;
    runtime.meter.check_size(static_cast<uint64_t>(spaces), 1);
    out.append(std::string(static_cast<size_t>(spaces), ' '));
    column += spaces;
  }
  return like(runtime, self, out.take());
}

Value format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return format_braces(self, arguments, runtime);
}

Value format_map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Binder bound("format_map", arguments, {"/mapping"}, 1);
  if (!bound.at(0).is(Kind::dict)) fail(FailureKind::type, "format_map() takes a mapping");
  Arguments named;
  for (const Dict::Entry& entry : bound.at(0).as_dict().entries()) {
    if (entry.key.is_string()) named.named.emplace_back(entry.key.text(), entry.value);
  }
  return format_braces(self, named, runtime);
}

Value unsupported(Runtime&, const Value&, const Arguments&) {
  fail(FailureKind::type, "this method of str is not supported");
}

constexpr std::array<Method, 47> kTextMethods = {{
    {"capitalize", map_case<to_capitalized>},
    {"casefold", map_case<to_casefold>},
    {"center", justify<'^'>},
    {"count", count},
    {"encode", unsupported},
    {"endswith", starts_or_ends_with<true>},
    {"expandtabs", expand_tabs},
    {"find", find<false, false>},
    {"format", format},
    {"format_map", format_map},
    {"index", find<false, true>},
    {"isalnum", predicate<text_is_alphanumeric>},
    {"isalpha", predicate<text_is_alphabetic>},
    {"isascii", predicate<text_is_ascii>},
    {"isdecimal", predicate<text_is_decimal>},
    {"isdigit", predicate<text_is_digits>},
    {"isidentifier", predicate<is_identifier>},
    {"islower", predicate<text_is_lower>},
    {"isnumeric", predicate<text_is_numeric>},
    {"isprintable", predicate<text_is_printable>},
    {"isspace", predicate<text_is_space>},
    {"istitle", predicate<text_is_title>},
    {"isupper", predicate<text_is_upper>},
    {"join", join},
    {"ljust", justify<'<'>},
    {"lower", map_case<to_lower>},
    {"lstrip", strip<true, false>},
    {"maketrans", unsupported},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justify<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", split_lines},
    {"startswith", starts_or_ends_with<false>},
    {"strip", strip<true, true>},
    {"swapcase", map_case<to_swapped_case>},
    {"title", map_case<to_title>},
    {"translate", unsupported},
    {"upper", map_case<to_upper>},
    {"zfill", zero_fill},
}};

}  // namespace

MethodBody find_text_method(std::string_view name) {
  const auto found =
      std::lower_bound(kTextMethods.begin(), kTextMethods.end(), name,
                       [](const Method& method, std::string_view wanted) { return method.name < wanted; });
  return found != kTextMethods.end() && found->name == name ? found->body : nullptr;
}

}  // namespace rafter::text::jinja

// Filters that make text.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja_binder.h"
#include "text/jinja_filters.h"
#include "text/jinja_format.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_search.h"
#include "text/jinja_text_operations.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

// soft_str(value), and the result as Markup if the input was.
struct SoftText {
  SoftText(const Value& input, Runtime& runtime) : value(to_string_value(input, runtime)) {
    runtime.meter.copy(4 * text().size());
  }
  const Text& text() const { return value.as_string().text; }
  bool markup() const { return value.as_string().markup; }
  Value value;
};

template <Text (*kMap)(const Text&)>
Value map_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("case", arguments, {});
  const SoftText soft(input, runtime);
  return runtime.string(kMap(soft.text()), soft.markup());
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("center", arguments, {"width"});
  const SoftText soft(input, runtime);
  return runtime.string(center_text(soft.text(), bound.integer(0, 80), Text(" "), runtime.meter),
                        soft.markup());
}

Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("escape", arguments, {});
  return escape_value(input, runtime);
}

Value force_escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("forceescape", arguments, {});
  return runtime.string(escape_html(to_text(input, runtime), runtime.meter), true);
}

Value format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail(FailureKind::type, "can't handle positional and keyword arguments at the same time");
  }
  const Value soft = to_string_value(input, runtime);
  if (arguments.named.empty()) return format_percent(soft, runtime.tuple(arguments.positional), runtime);
  auto named = runtime.new_dict();
  for (const auto& [name, value] : arguments.named) named->set(runtime.string(name), value, runtime.meter);
  return format_percent(soft, runtime.dict(std::move(named)), runtime);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("indent", arguments, {"width", "first", "blank"});
  if (input.is_undefined()) fail(FailureKind::undefined, "{}", input.why_undefined());
  if (!input.is_string()) fail(FailureKind::type, "indent() needs a str, not {}", input.type_name());
  const bool markup = input.as_string().markup;
  Text indentation;
  if (bound.has(0) && bound.at(0).is_string()) {
    indentation = bound.at(0).as_string().text;
  } else {
    const int64_t width = std::max<int64_t>(bound.integer(0, 4), 0);
    runtime.meter.check_size(static_cast<uint64_t>(width), 1);
    indentation = Text(std::string(static_cast<size_t>(width), ' '));
  }
  const bool blank = bound.truth(2, false);
  Text source = input.as_string().text;
  source.append("\n");  // so that a last line's end counts
  Builder out(runtime.meter);
  bool is_first = true;
  for (const ByteRange& line : line_ranges(source.view(), false, runtime.meter)) {
    if (!is_first) out.append("\n");
    const bool indented = is_first ? bound.truth(1, false) : blank || line.begin != line.end;
    if (indented) out.append(indentation);
    out.append(source, line.begin, line.end);
    is_first = false;
  }
  return runtime.string(out.take(), markup);
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("replace", arguments, {"old", "new", "count"}, 2);
  const bool counted = bound.has(2) && !bound.at(2).is_none();
  const Text old_part = to_text(bound.at(0), runtime);
  return runtime.string(replace_text(to_text(input, runtime), old_part.view(), to_text(bound.at(1), runtime),
                                     counted ? bound.integer(2, -1) : -1, runtime.meter));
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("safe", arguments, {});
  if (input.is_string() && input.as_string().markup) return input;
  return runtime.string(to_text(input, runtime), true);
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("string", arguments, {});
  return to_string_value(input, runtime);
}

Value strip_tags_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("striptags", arguments, {});
  return runtime.string(strip_tags(to_text(input, runtime), runtime.meter));
}

// Words are what stands between - ( { [ < and spaces.
Value title(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("title", arguments, {});
  const SoftText soft(input, runtime);
  const Text& text = soft.text();
  Builder out(runtime.meter);
  auto put_word = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const size_t second = begin + code_point_size(text.bytes()[begin]);
    out.append(to_upper(text.slice(begin, second)));
    out.append(to_lower(text.slice(second, end)));
  };
  size_t word = 0;
  char32_t c;
  for (CodePoints points(text.view()); points.next(c);) {
    if (!is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    put_word(word, points.begin());
    out.append(text, points.begin(), points.end());
    word = points.end();
  }
  put_word(word, text.size());
  return runtime.string(out.take());
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("trim", arguments, {"chars"});
  const SoftText soft(input, runtime);
  const bool given = bound.has(0) && !bound.at(0).is_none();
  return runtime.string(
      strip_text(soft.text(), given ? std::optional(bound.text(0)) : std::nullopt, true, true, runtime.meter),
      soft.markup());
}

Value truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t wanted = bound.integer(0, 255);
  const Value end = bound.value(2, runtime.string("..."));
  const int64_t leeway = bound.has(3) && !bound.at(3).is_none() ? bound.integer(3, 0) : 5;
  const auto end_size = static_cast<int64_t>(length(end));
  if (wanted < end_size) fail(FailureKind::value, "expected length >= {}, got {}", end_size, wanted);
  if (leeway < 0) fail(FailureKind::value, "expected leeway >= 0, got {}", leeway);
  if (static_cast<int64_t>(length(input)) <= wanted + leeway) return input;
  Value head = get_slice(input, {}, Value::integer(wanted - end_size), {}, runtime);
  if (bound.truth(1, false)) return add(head, end, runtime);
  if (!head.is_string()) fail(FailureKind::type, "truncate() needs a str, not {}", input.type_name());
  const size_t space = find_last_bytes(head.text(), " ", head.text().size(), runtime.meter);
  if (space != std::string_view::npos) {
    head = runtime.string(head.as_string().text.slice(0, space), head.as_string().markup);
  }
  return add(head, end, runtime);
}

void append_quoted(Builder& out, const Text& text, bool for_query) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out.append(text, i, i + 1);
    } else if (c == ' ' && for_query) {
      out.append_as("+", text, i);
    } else {
      out.append_as(fmt::format("%{:02X}", static_cast<unsigned char>(c)), text, i);
    }
  }
}

Value url_encode(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("urlencode", arguments, {});
  Builder out(runtime.meter);
  if (input.is_string() || !is_iterable(input, runtime)) {
    append_quoted(out, to_text(input, runtime), false);
    return runtime.string(out.take());
  }
  Value pairs = input;
  if (input.is(Kind::dict)) pairs = runtime.object<DictView>(input, DictView::Part::items);
  Value pair;
  bool first = true;
  for (auto items = iterate(pairs, runtime); items->next(pair);) {
    const std::vector<Value> parts = to_vector(pair, runtime);
    if (parts.size() != 2) fail(FailureKind::value, "urlencode() needs pairs");
    if (!first) out.append("&");
    first = false;
    append_quoted(out, to_text(parts[0], runtime), true);
    out.append("=");
    append_quoted(out, to_text(parts[1], runtime), true);
  }
  return runtime.string(out.take());
}

Value word_count(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("wordcount", arguments, {});
  const SoftText soft(input, runtime);
  int64_t words = 0;
  bool inside = false;
  char32_t c;
  for (CodePoints points(soft.text().view()); points.next(c);) {
    const bool word = is_word(c);
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

Value xml_attributes(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("xmlattr", arguments, {"autospace"});
  if (!input.is(Kind::dict)) fail(FailureKind::type, "xmlattr() needs a mapping, not {}", input.type_name());
  Builder out(runtime.meter);
  bool first = true;
  for (const Dict::Entry& entry : input.as_dict().entries()) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string()) fail(FailureKind::type, "xmlattr() needs str keys");
    if (entry.key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      fail(FailureKind::value, "invalid character in attribute name: {}", repr_of(entry.key, runtime));
    }
    if (!first || bound.truth(0, true)) out.append(" ");
    first = false;
    out.append(escape_value(entry.key, runtime).as_string().text);
    out.append("=\"");
    out.append(escape_value(entry.value, runtime).as_string().text);
    out.append("\"");
  }
  return runtime.string(out.take());
}

Value file_size_format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("filesizeformat", arguments, {"binary"});
  std::optional<double> bytes = input.is_string() ? parse_real(input.text()) : require_real(input);
  if (!bytes) fail(FailureKind::value, "could not convert string to float: {}", repr_of(input, runtime));
  const bool binary = bound.truth(0, false);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return runtime.string("1 Byte");
  if (*bytes < base) return runtime.string(fmt::format("{} Bytes", truncate_to_integer(*bytes)));
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
    return runtime.string(fmt::format("{:.1f} {}{}", base * *bytes / unit, prefix, binary ? "iB" : "B"));
  }
  return {};
}

Value unsupported(Runtime&, const Value&, const Arguments&) {
  fail(FailureKind::type, "the filters urlize, wordwrap, pprint and random are not supported");
}

constexpr std::array<FilterEntry, 24> kFilters = {{
    {"capitalize", map_case<to_capitalized>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"filesizeformat", file_size_format},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", map_case<to_lower>},
    {"pprint", unsupported},
    {"random", unsupported},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"striptags", strip_tags_filter},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", map_case<to_upper>},
    {"urlencode", url_encode},
    {"urlize", unsupported},
    {"wordcount", word_count},
    {"wordwrap", unsupported},
    {"xmlattr", xml_attributes},
}};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace rafter::text::jinja

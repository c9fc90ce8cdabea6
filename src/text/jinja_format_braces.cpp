// str.format and its format specifications.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/utf8.h"
#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

constexpr int64_t kMostDigits = 10'000;

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Spec {
  Text fill{" "};
  char align = 0;  // < > ^ =, or 0 for the type's default
  char sign = '-';
  bool alternate = false;
  int64_t width = -1;
  char grouping = 0;
  int64_t precision = -1;
  char type = 0;
};

[[noreturn]] void fail_spec(const Value& value) {
  fail(FailureKind::value, "invalid format specifier for an object of type '{}'", value.type_name());
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = -1;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    number = std::max<int64_t>(number, 0) * 10 + (text[at] - '0');
    if (number > INT32_MAX) fail(FailureKind::value, "too many decimal digits in format string");
  }
  return number;
}

Spec parse_spec(const Value& value, const Text& source) {
  const std::string_view text = source.view();
  Spec spec;
  size_t at = 0;
  auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const size_t first = text.empty() ? 0 : code_point_size(text[0]);
  bool filled = false;
  if (first < text.size() && is_align(text[first])) {
    spec.fill = source.slice(0, first);
    spec.align = text[first];
    filled = true;
    at = first + 1;
  } else if (is_align(peek())) {
    spec.align = text[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') spec.alternate = true, ++at;
  if (!filled && peek() == '0') {
    spec.fill = Text("0");
    if (spec.align == 0 && !value.is_string()) spec.align = '=';
    ++at;
  }
  spec.width = read_number(text, at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    spec.precision = read_number(text, at);
    if (spec.precision < 0) fail(FailureKind::value, "format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail_spec(value);
  return spec;
}

std::string group_digits(const std::string& digits, char separator, size_t group) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % group == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

// A number's text: sign and prefix, the whole digits (grouped), and what follows them.
Text lay_out(bool negative, const std::string& prefix, std::string whole, const std::string& rest,
             const Spec& spec, size_t group, Runtime& runtime) {
  const std::string head = (negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + prefix;
  const bool zeros = spec.align == '=' && spec.fill.view() == "0";
  if (spec.grouping != 0) {
    whole = group_digits(whole, spec.grouping, group);
    while (zeros && static_cast<int64_t>(head.size() + whole.size() + rest.size()) < spec.width) {
      // Zero padding is grouped too, and never begins with a separator.
      runtime.meter.check_size(static_cast<uint64_t>(spec.width), 1);
      runtime.meter.step(1 + whole.size() / 64);
      const size_t separator = whole.find(spec.grouping);
      const size_t lead = separator == std::string::npos ? whole.size() : separator;
      whole.insert(0, lead == group ? std::string("0") + spec.grouping : "0");
    }
  }
  const std::string body = whole + rest;
  const char align = spec.align == 0 ? '>' : spec.align;
  if (align != '=') return pad(Text(head + body), spec.width, spec.fill, align, runtime.meter);
  Text text(head);
  text.append(pad(Text(body), spec.width - static_cast<int64_t>(head.size()), spec.fill, '>', runtime.meter));
  return text;
}

Text format_text(const Value& value, const Spec& spec, Runtime& runtime) {
  if ((spec.type != 0 && spec.type != 's') || spec.sign != '-' || spec.alternate || spec.grouping != 0 ||
      spec.align == '=') {
    fail_spec(value);
  }
  Text text = value.as_string().text;
  if (spec.precision >= 0) {
    text = get_slice(value, {}, Value::integer(spec.precision), {}, runtime).as_string().text;
  }
  return pad(text, spec.width, spec.fill, spec.align == 0 ? '<' : spec.align, runtime.meter);
}

Text format_integer(const Value& value, const Spec& spec, Runtime& runtime) {
  const int64_t number = value.as_integer();
  const bool negative = number < 0;
  const uint64_t magnitude =
      negative ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  if (spec.precision >= 0) fail(FailureKind::value, "precision not allowed in integer format specifier");
  std::string prefix, digits;
  switch (spec.type) {
    case 'b':
      prefix = "0b", digits = fmt::format("{:b}", magnitude);
      break;
    case 'o':
      prefix = "0o", digits = fmt::format("{:o}", magnitude);
      break;
    case 'x':
      prefix = "0x", digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      prefix = "0X", digits = fmt::format("{:X}", magnitude);
      break;
    case 'c': {
      if (negative || magnitude > 0x10FFFF || (magnitude >= 0xD800 && magnitude <= 0xDFFF) ||
          spec.sign != '-') {
        fail_spec(value);
      }
      std::string bytes;
      base::append_utf8(bytes, static_cast<char32_t>(magnitude));
      return pad(Text(bytes), spec.width, spec.fill, spec.align == 0 ? '<' : spec.align, runtime.meter);
    }
    default:
      digits = std::to_string(magnitude);
  }
  const bool decimal = prefix.empty();
  if (spec.grouping == ',' && !decimal) fail_spec(value);
  return lay_out(negative, spec.alternate ? prefix : "", digits, "", spec, decimal ? 3 : 4, runtime);
}

// The digits of a finite magnitude for a float specification.
std::string real_digits(double magnitude, const Spec& spec) {
  const char* alternate = spec.alternate ? "#" : "";
  if (spec.type == 0 && spec.precision < 0) return real_repr(magnitude);
  if (spec.type == 0) {  // as g, but never without a point, and scientific one digit earlier
    const int64_t precision = std::max<int64_t>(spec.precision, 1);
    const std::string scientific = fmt::format("{:.{}e}", magnitude, precision - 1);
    const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
    std::string digits =
        fmt::format(fmt::runtime(fmt::format("{{:{}.{}g}}", alternate, precision)), magnitude);
    if (magnitude != 0 && (exponent < -4 || exponent >= precision - 1)) {
      std::string mantissa = scientific.substr(0, scientific.find('e'));
      while (mantissa.find('.') != std::string::npos && (mantissa.back() == '0' || mantissa.back() == '.')) {
        const bool point = mantissa.back() == '.';
        mantissa.pop_back();
        if (point) break;
      }
      return mantissa + scientific.substr(scientific.find('e'));
    }
    return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
  }
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  const char type = spec.type == 'n' ? 'g' : spec.type == '%' ? 'f' : spec.type;
  const double scaled = spec.type == '%' ? magnitude * 100 : magnitude;
  return fmt::format(fmt::runtime(fmt::format("{{:{}.{}{}}}", alternate, precision, type)), scaled) +
         (spec.type == '%' ? "%" : "");
}

Text format_real(double value, const Spec& spec, Runtime& runtime) {
  if (spec.precision > kMostDigits) fail(FailureKind::value, "precision too big");
  const bool negative = std::signbit(value) && !std::isnan(value);
  if (!std::isfinite(value)) {
    std::string name = std::isnan(value) ? "nan" : "inf";
    if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') name = std::isnan(value) ? "NAN" : "INF";
    return lay_out(negative, "", name + (spec.type == '%' ? "%" : ""), "", spec, 100, runtime);
  }
  const std::string digits = real_digits(std::fabs(value), spec);
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  return lay_out(negative, "", digits.substr(0, whole), digits.substr(whole), spec, 3, runtime);
}

class BraceFormatter {
 public:
  BraceFormatter(const Value& format, const Arguments& arguments, Runtime& runtime)
      : format_(format.as_string()), arguments_(arguments), runtime_(runtime) {}

  Value run() {
    Text text = expand(format_.text, 2);
    return runtime_.string(std::move(text), format_.markup);
  }

 private:
  Text expand(const Text& source, int levels) {
    if (levels < 0) fail(FailureKind::value, "max string recursion exceeded");
    const std::string_view text = source.view();
    Builder out(runtime_.meter);
    size_t at = 0;
    while (at < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(source, at, brace);
      if (brace == text.size()) break;
      const bool doubled = brace + 1 < text.size() && text[brace + 1] == text[brace];
      if (doubled) {
        out.append(source, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') fail(FailureKind::value, "single '}}' encountered in format string");
      const size_t end = field_end(text, brace + 1);
      out.append(field(source.slice(brace + 1, end), levels));
      at = end + 1;
    }
    return out.take();
  }

  static size_t field_end(std::string_view text, size_t at) {
    for (int depth = 1; at < text.size(); ++at) {
      if (text[at] == '[') {  // an index may hold braces
        const size_t close = text.find(']', at);
        if (close != std::string_view::npos &&
            text.substr(at, close - at).find_first_of(":!") == std::string_view::npos) {
          at = close;
          continue;
        }
      }
      depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (depth == 0) return at;
    }
    fail(FailureKind::value, "expected '}}' before end of string");
  }

  // name[!conversion][:spec]
  Text field(const Text& source, int levels) {
    const std::string_view text = source.view();
    size_t name_end = 0;
    while (name_end < text.size() && text[name_end] != ':' && text[name_end] != '!') {
      if (text[name_end] == '{') fail(FailureKind::value, "unexpected '{{' in field name");
      if (text[name_end] == '[') name_end = std::min(text.find(']', name_end), text.size() - 1);
      ++name_end;
    }
    Value value = look_up(text.substr(0, name_end));
    size_t at = name_end;
    if (at < text.size() && text[at] == '!') {
      const char conversion = at + 1 < text.size() ? text[at + 1] : '\0';
      value = convert(value, conversion);
      at += 2;
      if (at < text.size() && text[at] != ':')
        fail(FailureKind::value, "expected ':' after conversion specifier");
    }
    Text spec = at < text.size() ? expand(source.slice(at + 1, text.size()), levels - 1) : Text();
    if (!format_.markup) return format_value(value, spec, runtime_);
    if (value.is_string() && value.as_string().markup) {
      if (!spec.empty()) fail(FailureKind::value, "unsupported format specification for Markup");
      return value.as_string().text;
    }
    return escape_html(format_value(value, spec, runtime_), runtime_.meter);
  }

  Value convert(const Value& value, char conversion) {
    if (conversion == 's') return runtime_.string(to_text(value, runtime_));
    if (conversion != 'r' && conversion != 'a') {
      fail(FailureKind::value, "unknown conversion specifier in format string");
    }
    Builder printed(runtime_.meter);
    append_repr(printed, value, runtime_);
    return runtime_.string(printed.take());
  }

  Value look_up(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    size_t at = first_end;
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) fail(FailureKind::value, "empty attribute in format string");
        value = get_attribute(value, name.substr(at + 1, end - at - 1), runtime_);
        at = end;
      } else {
        const size_t end = name.find(']', at);
        if (name[at] != '[' || end == std::string_view::npos) {
          fail(FailureKind::value, "missing ']' in format string");
        }
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) fail(FailureKind::value, "empty attribute in format string");
        value = get_subscript(value, index_key(key), runtime_);
        at = end + 1;
        if (at < name.size() && name[at] != '.' && name[at] != '[') {
          fail(FailureKind::value, "only '.' or '[' may follow ']' in format field specifier");
        }
      }
    }
    return value;
  }

  Value index_key(std::string_view key) {
    const bool number = std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    return number ? integer_from_digits(key, false, runtime_) : runtime_.string(key);
  }

  Value argument(std::string_view name) {
    const bool number = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number) {
      runtime_.meter.step(1 + arguments_.named.size() / 8);
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      fail(FailureKind::value, "format string names '{}', which is not among the arguments", name);
    }
    const bool automatic = name.empty();
    if (numbering_ != 0 && numbering_ != (automatic ? 'a' : 'm')) {
      fail(FailureKind::value, "cannot switch between automatic and manual field numbering");
    }
    numbering_ = automatic ? 'a' : 'm';
    size_t index = next_;
    if (automatic) {
      ++next_;
    } else {
      const Value parsed = integer_from_digits(name, false, runtime_);
      index = parsed.is_int() ? static_cast<size_t>(parsed.as_integer()) : SIZE_MAX;
    }
    if (index >= arguments_.positional.size()) {
      fail(FailureKind::value, "replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[index];
  }

  const String& format_;
  const Arguments& arguments_;
  Runtime& runtime_;
  size_t next_ = 0;
  char numbering_ = 0;  // 'a'utomatic or 'm'anual
};

}  // namespace

Text format_value(const Value& value, const Text& source, Runtime& runtime) {
  if (source.empty()) return to_text(value, runtime);
  const bool number = value.is_int() || value.is(Kind::real);
  if (!number && !value.is_string()) {
    fail(FailureKind::type, "unsupported format string passed to {}.__format__", value.type_name());
  }
  const Spec spec = parse_spec(value, source);
  if (spec.width > 0) runtime.meter.check_size(static_cast<uint64_t>(spec.width), spec.fill.size());
  if (value.is_string()) return format_text(value, spec, runtime);
  const std::string_view real_types = "eEfFgG%";
  const bool as_real =
      value.is(Kind::real) || (spec.type != 0 && real_types.find(spec.type) != std::string_view::npos);
  if (spec.type != 0) {
    const std::string_view types = value.is(Kind::real) ? "eEfFgGn%" : "bcdoxXneEfFgG%";
    if (types.find(spec.type) == std::string_view::npos) {
      fail(FailureKind::value, "unknown format code '{}' for object of type '{}'", spec.type,
           value.type_name());
    }
  }
  return as_real ? format_real(require_real(value), spec, runtime) : format_integer(value, spec, runtime);
}

Value format_braces(const Value& format, const Arguments& arguments, Runtime& runtime) {
  return BraceFormatter(format, arguments, runtime).run();
}

}  // namespace rafter::text::jinja

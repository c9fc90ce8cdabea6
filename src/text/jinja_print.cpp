#include "text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

// A container being printed. One that is met again inside itself prints as an ellipsis.
class Printing {
 public:
  Printing(const Value& value, Runtime& runtime) : stack_(runtime.printing) {
    again_ = std::find(stack_.begin(), stack_.end(), value.identity()) != stack_.end();
    if (stack_.size() > 2 * static_cast<size_t>(kMaxNesting)) {
      fail(FailureKind::limit, "maximum recursion depth exceeded while printing a value");
    }
    stack_.push_back(value.identity());
  }
  ~Printing() { stack_.pop_back(); }
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;
  bool again() const { return again_; }

 private:
  std::vector<const void*>& stack_;
  bool again_;
};

void append_string_repr(Builder& out, const String& string) {
  const std::string_view text = string.text.view();
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  if (string.markup) out.append("Markup(");
  out.append(std::string_view(&quote, 1));
  size_t plain = 0;  // where the run begins that prints as it is
  char32_t c;
  for (CodePoints points(text); points.next(c);) {
    std::string escaped;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      escaped = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escaped = {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (c < 0x20 || c == 0x7F || (c > 0x7F && !is_printable(c))) {
      escaped = c < 0x100     ? fmt::format("\\x{:02x}", static_cast<uint32_t>(c))
                : c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                              : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    } else {
      continue;
    }
    out.append(string.text, plain, points.begin());
    out.append_as(escaped, string.text, points.begin());
    plain = points.end();
  }
  out.append(string.text, plain, text.size());
  out.append(std::string_view(&quote, 1));
  if (string.markup) out.append(")");
}

void append_items(Builder& out, const std::vector<Value>& items, Runtime& runtime) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.append(", ");
    append_repr(out, items[i], runtime);
  }
}

void append_dict(Builder& out, const Dict& dict, Runtime& runtime) {
  out.append("{");
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, entry.key, runtime);
    out.append(": ");
    append_repr(out, entry.value, runtime);
  }
  out.append("}");
}

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view digits(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t exponent_at = digits.find('e');
  int exponent = 0;
  const char* exponent_begin = digits.data() + exponent_at + 1;
  if (*exponent_begin == '+') ++exponent_begin;
  std::from_chars(exponent_begin, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02}", digits.substr(0, exponent_at), exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  char fixed[400];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  std::string text(fixed, end.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_repr(Builder& out, const Value& value, Runtime& runtime) {
  runtime.meter.step();
  switch (value.kind()) {
    case Kind::none:
      return out.append("None");
    case Kind::undefined:
      return out.append("Undefined");
    case Kind::boolean:
      return out.append(value.as_boolean() ? "True" : "False");
    case Kind::integer:
      return out.append(std::to_string(value.as_integer()));
    case Kind::real:
      return out.append(real_repr(value.as_real()));
    case Kind::string:
      return append_string_repr(out, value.as_string());
    default:
      break;
  }
  const Printing printing(value, runtime);
  switch (value.kind()) {
    case Kind::list:
      out.append("[");
      if (printing.again()) return out.append("...]");
      append_items(out, value.as_sequence().items, runtime);
      return out.append("]");
    case Kind::tuple:
      out.append("(");
      if (printing.again()) return out.append("...)");
      append_items(out, value.as_sequence().items, runtime);
      return out.append(value.as_sequence().items.size() == 1 ? ",)" : ")");
    case Kind::dict:
      if (printing.again()) return out.append("{...}");
      return append_dict(out, value.as_dict(), runtime);
    default:
      return value.as_object().print(out, runtime);
  }
}

void append_str(Builder& out, const Value& value, Runtime& runtime) {
  if (value.is_undefined()) return;
  if (value.is_string()) {
    out.append(value.as_string().text);
  } else {
    append_repr(out, value, runtime);
  }
}

Text to_text(const Value& value, Runtime& runtime) {
  if (value.is_string()) return value.as_string().text;
  Builder out(runtime.meter);
  append_str(out, value, runtime);
  return out.take();
}

std::string repr_of(const Value& value, Runtime& runtime) {
  Builder out(runtime.meter);
  append_repr(out, value, runtime);
  return out.take().bytes();
}

Value to_string_value(const Value& value, Runtime& runtime) {
  return value.is_string() ? value : runtime.string(to_text(value, runtime));
}

}  // namespace rafter::text::jinja

// printf-style formatting.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/utf8.h"
#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

constexpr int64_t kMostDigits = 10'000;  // of a precision: beyond it a template is up to no good

struct Specifier {
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  int64_t width = -1;
  int64_t precision = -1;
  char type = 0;
};

std::string signed_digits(bool negative, const Specifier& spec) {
  return negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
}

class PercentFormatter {
 public:
  PercentFormatter(const Value& format, const Value& arguments, Runtime& runtime)
      : format_(format.as_string()), arguments_(arguments), runtime_(runtime), out_(runtime.meter) {
    is_mapping_ = arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is_undefined() ||
                  (arguments.is(Kind::object) && arguments.as_object().has_items());
  }

  Value run() {
    const std::string_view text = format_.text.view();
    size_t from = 0;
    while (true) {
      at_ = text.find('%', from);
      if (at_ == std::string_view::npos) break;
      out_.append(format_.text, from, at_);
      ++at_;
      one();
      from = at_;
    }
    out_.append(format_.text, from, text.size());
    const size_t given = arguments_.is(Kind::tuple) ? arguments_.as_sequence().items.size() : 1;
    if (used_ < given && !is_mapping_) {
      fail(FailureKind::type, "not all arguments converted during string formatting");
    }
    return runtime_.string(out_.take(), format_.markup);
  }

 private:
  char peek() {
    if (at_ >= format_.text.size()) fail(FailureKind::value, "incomplete format");
    return format_.text.bytes()[at_];
  }

  Value next_argument() {
    const bool several = arguments_.is(Kind::tuple);
    const size_t given = several ? arguments_.as_sequence().items.size() : 1;
    if (used_ >= given) fail(FailureKind::type, "not enough arguments for format string");
    const size_t index = used_++;
    return several ? arguments_.as_sequence().items[index] : arguments_;
  }

  int64_t number_or_star(bool& star) {
    star = peek() == '*';
    if (star) {
      ++at_;
      return require_integer(next_argument(), "* of a format");
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (peek() - '0');
      if (number > INT32_MAX) fail(FailureKind::value, "width too big");
      ++at_;
    }
    return number;
  }

  void one() {
    Specifier spec;
    std::optional<Value> keyed;
    if (peek() == '(') keyed = keyed_argument();
    flags(spec);
    bool star = false;
    if (peek() == '*' || (peek() >= '1' && peek() <= '9')) {
      spec.width = number_or_star(star);
      if (spec.width < 0) {
        spec.left = true;
        spec.width = -spec.width;
      }
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(number_or_star(star), 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') return out_.append("%");
    write(keyed ? *keyed : next_argument(), spec);
  }

  Value keyed_argument() {
    if (!is_mapping_) fail(FailureKind::type, "format requires a mapping");
    const size_t begin = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= format_.text.size()) fail(FailureKind::value, "incomplete format key");
      depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    }
    const Value key = runtime_.string(format_.text.slice(begin, at_ - 1));
    if (auto found = get_item(arguments_, key, runtime_)) return *found;
    fail(FailureKind::value, "no argument named {}", repr_of(key, runtime_));
  }

  void flags(Specifier& spec) {
    for (;; ++at_) {
      switch (peek()) {
        case '-':
          spec.left = true;
          break;
        case '+':
          spec.plus = true;
          break;
        case ' ':
          spec.space = true;
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          spec.zero = true;
          break;
        default:
          return;
      }
    }
  }

  void write(const Value& value, const Specifier& spec) {
    switch (spec.type) {
      case 's':
        return write_text(
            format_.markup ? escape_value(value, runtime_).as_string().text : to_text(value, runtime_), spec);
      case 'r':
      case 'a': {
        Builder printed(runtime_.meter);
        append_repr(printed, value, runtime_);
        Text text = printed.take();
        if (spec.type == 'a' &&
            !std::all_of(text.view().begin(), text.view().end(), [](char c) { return c > 0; })) {
          fail(FailureKind::value, "%a of text beyond ASCII is not supported");
        }
        return write_text(format_.markup ? escape_html(text, runtime_.meter) : text, spec);
      }
      case 'c':
        return write_text(character(value), Specifier{.left = spec.left, .width = spec.width});
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_real(as_real(value), spec);
      default:
        fail(FailureKind::value, "unsupported format character '{}'", spec.type);
    }
  }

  double as_real(const Value& value) {
    if (!value.is_string()) return require_real(value);
    if (format_.markup) {  // markup's own formatting converts with float()
      if (auto real = parse_real(value.text())) return *real;
    }
    fail(FailureKind::type, "must be real number, not str");
  }

  void write_text(const Text& text, const Specifier& spec) {
    const size_t size = count_code_points(text.view());
    if (spec.precision >= 0 && static_cast<size_t>(spec.precision) < size) {
      const Value cut = get_slice(runtime_.string(text), {}, Value::integer(spec.precision), {}, runtime_);
      return out_.append(
          pad(cut.as_string().text, spec.width, Text(" "), spec.left ? '<' : '>', runtime_.meter));
    }
    out_.append(pad(text, spec.width, Text(" "), spec.left ? '<' : '>', runtime_.meter));
  }

  Text character(const Value& value) {
    if (value.is_string() && length(value) == 1) return value.as_string().text;
    if (!value.is_int()) fail(FailureKind::type, "%c requires int or char");
    const int64_t c = value.as_integer();
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
      fail(FailureKind::value, "%c arg not in range(0x110000)");
    }
    std::string bytes;
    base::append_utf8(bytes, static_cast<char32_t>(c));
    return Text(bytes);
  }

  int64_t as_integer(const Value& value, char type) {
    if (value.is_int()) return value.as_integer();
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (value.is(Kind::real) && decimal) return truncate_to_integer(value.as_real());
    if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
    fail(FailureKind::type, "%{} format: {} is required, not {}", type,
         decimal ? "a real number" : "an integer", value.type_name());
  }

  void write_integer(const Value& value, const Specifier& spec) {
    if (auto* big = value.object_if<BigInteger>(); big != nullptr && (spec.type == 'd' || spec.type == 'i')) {
      const bool negative = big->digits().starts_with('-');
      return write_number(negative, "", big->digits().substr(negative ? 1 : 0), spec);
    }
    const int64_t number = as_integer(value, spec.type);
    const uint64_t magnitude =
        number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    std::string prefix, digits;
    if (spec.type == 'x' || spec.type == 'X') {
      digits = spec.type == 'x' ? fmt::format("{:x}", magnitude) : fmt::format("{:X}", magnitude);
      if (spec.alternate) prefix = spec.type == 'x' ? "0x" : "0X";
    } else if (spec.type == 'o') {
      digits = fmt::format("{:o}", magnitude);
      if (spec.alternate) prefix = "0o";
    } else {
      digits = std::to_string(magnitude);
    }
    if (spec.precision > kMostDigits) fail(FailureKind::value, "precision too big");
    if (static_cast<int64_t>(digits.size()) < spec.precision) {
      digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
    }
    write_number(number < 0, prefix, digits, spec);
  }

  void write_real(double value, const Specifier& spec) {
    const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    if (precision > kMostDigits) fail(FailureKind::value, "precision too big");
    std::string digits;
    const double magnitude = std::fabs(value);
    if (!std::isfinite(value)) {
      digits = std::isnan(value) ? "nan" : "inf";
      if (spec.type < 'a') std::transform(digits.begin(), digits.end(), digits.begin(), ::toupper);
    } else {
      digits = fmt::format(
          fmt::runtime(fmt::format("{{:{}.{}{}}}", spec.alternate ? "#" : "", precision, spec.type)),
          magnitude);
    }
    write_number(std::signbit(value) && !std::isnan(value), "", digits, spec);
  }

  // The sign, the prefix, and zeros up to the width where the `0` flag asks for them.
  void write_number(bool negative, const std::string& prefix, std::string digits, const Specifier& spec) {
    const std::string head = signed_digits(negative, spec) + prefix;
    const auto written = static_cast<int64_t>(head.size() + digits.size());
    if (spec.zero && !spec.left && spec.width > written) {
      runtime_.meter.check_size(static_cast<uint64_t>(spec.width), 1);
      digits.insert(0, static_cast<size_t>(spec.width - written), '0');
    }
    out_.append(pad(Text(head + digits), spec.width, Text(" "), spec.left ? '<' : '>', runtime_.meter));
  }

  const String& format_;
  const Value& arguments_;
  Runtime& runtime_;
  Builder out_;
  bool is_mapping_;
  size_t at_ = 0;
  size_t used_ = 0;
};

}  // namespace

Value format_percent(const Value& format, const Value& arguments, Runtime& runtime) {
  return PercentFormatter(format, arguments, runtime).run();
}

Text pad_sides(const Text& text, uint64_t left, uint64_t right, const Text& fill, Meter& meter) {
  meter.check_size(left + right, fill.size());
  meter.copy((left + right) * fill.size() + text.size());
  Text padded;
  for (uint64_t i = 0; i < left; ++i) padded.append(fill);
  padded.append(text);
  for (uint64_t i = 0; i < right; ++i) padded.append(fill);
  return padded;
}

Text pad(const Text& text, int64_t width, const Text& fill, char align, Meter& meter) {
  const auto size = static_cast<int64_t>(count_code_points(text.view()));
  if (width <= size) return text;
  const auto missing = static_cast<uint64_t>(width - size);
  const uint64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return pad_sides(text, left, missing - left, fill, meter);
}

}  // namespace rafter::text::jinja

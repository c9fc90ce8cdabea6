#include "text/jinja_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

std::string_view trim_spaces(std::string_view text) {
  char32_t c;
  size_t begin = text.size(), end = 0;
  for (CodePoints points(text); points.next(c);) {
    if (is_space(c)) continue;
    begin = std::min(begin, points.begin());
    end = points.end();
  }
  return end == 0 ? std::string_view() : text.substr(begin, end - begin);
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Removes `_` between digits; false if one stands elsewhere.
bool drop_underscores(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 36 && digit_value(text[i + 1]) < 36;
    if (!between) return false;
  }
  return true;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return (x | 0x20) == y; });
}

bool is_decimal_literal(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - from;
  };
  const size_t whole = digits();
  size_t fraction = 0;
  if (i < text.size() && text[i] == '.') {
    ++i;
    fraction = digits();
  }
  if (whole + fraction == 0) return false;
  if (i < text.size() && (text[i] | 0x20) == 'e') {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

}  // namespace

Value integer_from_digits(std::string_view digits, bool negative, Runtime& runtime) {
  const size_t leading = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  const std::string text = (negative ? "-" : "") + std::string(digits.substr(leading));
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc()) return Value::integer(value);
  constexpr size_t kMostDigits = 4300;  // as Python refuses longer ones
  if (text.size() > kMostDigits) fail(FailureKind::value, "an integer of more than {} digits", kMostDigits);
  return runtime.object<BigInteger>(text);
}

std::optional<Value> parse_integer(std::string_view text, int64_t base, Runtime& runtime) {
  text = trim_spaces(text);
  const bool negative = take_sign(text);
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bool prefixed = false;
  if (text.size() >= 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
      base = named;
      prefixed = true;
    }
  }
  std::string digits;
  if (text.empty() || !drop_underscores(text, digits)) return std::nullopt;
  if (base == 0) {
    if (!prefixed && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
      return std::nullopt;
    base = 10;
  }
  if (!std::all_of(digits.begin(), digits.end(), [&](char c) { return digit_value(c) < base; }))
    return std::nullopt;
  if (base == 10) return integer_from_digits(digits, negative, runtime);
  if (negative) digits.insert(digits.begin(), '-');
  int64_t value = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (read.ec != std::errc()) fail(FailureKind::value, "the number is outside 64-bit integers");
  return Value::integer(value);
}

double real_from_digits(std::string_view digits) {
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec == std::errc()) return value;
  // Out of range: infinite unless the digits before the exponent, or the exponent, make it tiny.
  const size_t exponent = digits.find_first_of("eE");
  const std::string_view mantissa = digits.substr(0, exponent);
  if (mantissa.find_first_not_of("0.") == std::string_view::npos) return 0;
  const bool tiny = exponent == std::string_view::npos ? mantissa[0] == '0' || mantissa[0] == '.'
                                                       : digits.substr(exponent + 1).starts_with('-');
  return tiny ? 0 : HUGE_VAL;
}

std::optional<double> parse_real(std::string_view text) {
  text = trim_spaces(text);
  const bool negative = take_sign(text);
  const double sign = negative ? -1 : 1;
  if (equals_ignoring_case(text, "inf") || equals_ignoring_case(text, "infinity")) return sign * HUGE_VAL;
  if (equals_ignoring_case(text, "nan")) return std::nan("");
  std::string digits;
  if (text.empty() || !drop_underscores(text, digits) || !is_decimal_literal(digits)) return std::nullopt;
  return sign * real_from_digits(digits);
}

int64_t truncate_to_integer(double value) {
  if (std::isnan(value)) fail(FailureKind::value, "cannot convert float NaN to integer");
  if (std::isinf(value)) fail(FailureKind::value, "cannot convert float infinity to integer");
  if (value >= 9223372036854775808.0 || value < -9223372036854775808.0) {
    fail(FailureKind::value, "the number is outside 64-bit integers");
  }
  return static_cast<int64_t>(value);
}

double round_real(double value, int64_t digits) {
  constexpr int64_t kMostDigits = 323, kLeastDigits = -308;
  if (!std::isfinite(value) || digits > kMostDigits) return value;
  if (digits < kLeastDigits) return std::copysign(0.0, value);
  if (digits >= 0)
    return real_from_digits(fmt::format("{:.{}f}", std::fabs(value), digits)) * std::copysign(1.0, value);
  // Left of the point: the exact integer part's digits, rounded half to even by hand.
  std::string whole = fmt::format("{:.0f}", std::trunc(std::fabs(value)));
  const auto dropped = static_cast<size_t>(-digits);
  if (whole.size() < dropped) return std::copysign(0.0, value);
  const std::string_view tail = std::string_view(whole).substr(whole.size() - dropped);
  std::string head = "0" + whole.substr(0, whole.size() - dropped);
  const bool beyond_half =
      tail[0] > '5' || (tail[0] == '5' && (tail.find_first_not_of('0', 1) != std::string_view::npos ||
                                           std::trunc(value) != value));
  const bool half = tail[0] == '5' && !beyond_half;
  if (beyond_half || (half && (head.back() - '0') % 2 == 1)) {
    size_t i = head.size() - 1;
    while (head[i] == '9') head[i--] = '0';
    ++head[i];
  }
  return std::copysign(real_from_digits(head + std::string(dropped, '0')), value);
}

int64_t round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i > digits; --i) unit *= 10;
  const int64_t remainder = (value % unit + unit) % unit;
  const int64_t low = value - remainder;
  const bool up = remainder > unit / 2 || (remainder * 2 == unit && (low / unit) % 2 != 0);
  int64_t rounded;
  if (__builtin_add_overflow(low, up ? unit : 0, &rounded)) {
    fail(FailureKind::value, "the result is outside 64-bit integers");
  }
  return rounded;
}

int64_t require_integer(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
  if (!value.is_int()) fail(FailureKind::type, "{} must be an integer, not {}", what, value.type_name());
  return value.as_integer();
}

double require_real(const Value& value) {
  if (value.is(Kind::real)) return value.as_real();
  if (value.is_int()) return static_cast<double>(value.as_integer());
  if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
  fail(FailureKind::type, "must be real number, not {}", value.type_name());
}

}  // namespace rafter::text::jinja

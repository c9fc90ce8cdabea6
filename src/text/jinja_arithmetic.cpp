// The arithmetic and indexing half of jinja_operators.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_format.h"
#include "text/jinja_operators.h"
#include "text/jinja_runtime.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

namespace rafter::text::jinja {
namespace {

[[noreturn]] void fail_operands(const Value& a, const Value& b, std::string_view operation) {
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) fail(FailureKind::undefined, "{}", side->why_undefined());
    if (side->object_if<BigInteger>() != nullptr) {
      fail(FailureKind::value, "integers outside 64 bits cannot be computed with");
    }
  }
  fail(FailureKind::type, "unsupported operand type(s) for {}: '{}' and '{}'", operation, a.type_name(),
       b.type_name());
}

[[noreturn]] void fail_overflow() { fail(FailureKind::value, "the result is outside 64-bit integers"); }
[[noreturn]] void fail_zero(std::string_view what) { fail(FailureKind::value, "{} by zero", what); }

bool are_ints(const Value& a, const Value& b) { return a.is_int() && b.is_int(); }
bool are_numbers(const Value& a, const Value& b) {
  return (a.is_int() || a.is(Kind::real)) && (b.is_int() || b.is(Kind::real));
}
double real(const Value& number) {
  return number.is_int() ? static_cast<double>(number.as_integer()) : number.as_real();
}

Value join_strings(const Value& a, const Value& b, Runtime& runtime) {
  const String& left = a.as_string();
  const String& right = b.as_string();
  const bool markup = left.markup || right.markup;
  Builder joined(runtime.meter);
  joined.append(markup && !left.markup ? escape_html(left.text, runtime.meter) : left.text);
  joined.append(markup && !right.markup ? escape_html(right.text, runtime.meter) : right.text);
  return runtime.string(joined.take(), markup);
}

Value join_sequences(const Value& a, const Value& b, Runtime& runtime) {
  std::vector<Value> items = a.as_sequence().items;
  const auto& more = b.as_sequence().items;
  items.insert(items.end(), more.begin(), more.end());
  return a.is(Kind::list) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value repeat(const Value& value, int64_t times, Runtime& runtime) {
  const auto count = static_cast<uint64_t>(std::max<int64_t>(times, 0));
  if (value.is_string()) {
    const String& string = value.as_string();
    runtime.meter.check_size(count, string.text.size());
    Builder repeated(runtime.meter);
    if (!string.text.empty()) {
      for (uint64_t i = 0; i < count; ++i) repeated.append(string.text);
    }
    return runtime.string(repeated.take(), string.markup);
  }
  const auto& items = value.as_sequence().items;
  runtime.meter.check_size(count, items.size() * sizeof(Value));
  std::vector<Value> repeated;
  if (!items.empty()) {
    runtime.meter.step(count * items.size());
    repeated.reserve(count * items.size());
    for (uint64_t i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return value.is(Kind::list) ? runtime.list(std::move(repeated)) : runtime.tuple(std::move(repeated));
}

// Python's float division with remainder: the remainder has the divisor's sign.
std::pair<double, double> floor_and_remainder(double a, double b) {
  if (b == 0) fail_zero("float floor division");
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  double floored = std::copysign(0.0, a / b);
  if (quotient != 0) {
    floored = std::floor(quotient);
    if (quotient - floored > 0.5) floored += 1;
  }
  return {floored, remainder};
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

std::optional<int64_t> slice_bound(const Value& bound) {
  if (bound.is_none()) return std::nullopt;
  if (bound.is_undefined()) fail(FailureKind::undefined, "{}", bound.why_undefined());
  if (!bound.is_int()) fail(FailureKind::type, "slice indices must be integers or None");
  return bound.as_integer();
}

// The indices that start:stop:step selects from `size` items.
struct Selection {
  int64_t start;
  int64_t stop;
  int64_t step;
  size_t count;
};

Selection select(size_t size, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) {
  const auto length = static_cast<int64_t>(size);
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? length - 1 : length;
  auto clamp = [&](int64_t bound) {
    return std::clamp(bound < 0 ? std::max(bound, -length - 1) + length : bound, lowest, highest);
  };
  const int64_t first = start ? clamp(*start) : step < 0 ? highest : lowest;
  const int64_t last = stop ? clamp(*stop) : step < 0 ? lowest : highest;
  const int64_t distance = step < 0 ? first - last : last - first;
  if (distance <= 0) return {first, last, step, 0};
  const auto stride = static_cast<uint64_t>(step < 0 ? -(step + 1) : step - 1) + 1;
  return {first, last, step, static_cast<size_t>((static_cast<uint64_t>(distance) - 1) / stride + 1)};
}

Value slice_string(const Value& value, const Selection& picked, Runtime& runtime) {
  const String& string = value.as_string();
  std::vector<size_t> offsets;  // byte offset of each code point, and the end
  if (!string.ascii()) {
    char32_t c;
    for (CodePoints points(string.text.view()); points.next(c);) offsets.push_back(points.begin());
    offsets.push_back(string.text.size());
    runtime.meter.step(offsets.size());
  }
  auto offset = [&](int64_t index) {
    return string.ascii() ? static_cast<size_t>(index) : offsets[static_cast<size_t>(index)];
  };
  if (picked.count == 0) return runtime.string(Text(), string.markup);
  if (picked.step == 1) {
    const int64_t end = picked.start + static_cast<int64_t>(picked.count);
    return runtime.string(string.text.slice(offset(picked.start), offset(end)), string.markup);
  }
  Builder sliced(runtime.meter);
  for (size_t i = 0; i < picked.count; ++i) {
    const int64_t index = picked.start + static_cast<int64_t>(i) * picked.step;
    sliced.append(string.text, offset(index), offset(index + 1));
  }
  return runtime.string(sliced.take(), string.markup);
}

}  // namespace

Value add(const Value& a, const Value& b, Runtime& runtime) {
  if (are_ints(a, b)) {
    int64_t sum;
    if (__builtin_add_overflow(a.as_integer(), b.as_integer(), &sum)) fail_overflow();
    return Value::integer(sum);
  }
  if (are_numbers(a, b)) return Value::real(real(a) + real(b));
  if (a.is_string() && b.is_string()) return join_strings(a, b, runtime);
  if (a.is_sequence() && a.kind() == b.kind()) return join_sequences(a, b, runtime);
  if (a.is_string() && !b.is_undefined()) {
    fail(FailureKind::type, "can only concatenate str (not \"{}\") to str", b.type_name());
  }
  fail_operands(a, b, "+");
}

Value subtract(const Value& a, const Value& b, Runtime&) {
  if (are_ints(a, b)) {
    int64_t difference;
    if (__builtin_sub_overflow(a.as_integer(), b.as_integer(), &difference)) fail_overflow();
    return Value::integer(difference);
  }
  if (are_numbers(a, b)) return Value::real(real(a) - real(b));
  fail_operands(a, b, "-");
}

Value multiply(const Value& a, const Value& b, Runtime& runtime) {
  if (are_ints(a, b)) {
    int64_t product;
    if (__builtin_mul_overflow(a.as_integer(), b.as_integer(), &product)) fail_overflow();
    return Value::integer(product);
  }
  if (are_numbers(a, b)) return Value::real(real(a) * real(b));
  if ((a.is_string() || a.is_sequence()) && b.is_int()) return repeat(a, b.as_integer(), runtime);
  if ((b.is_string() || b.is_sequence()) && a.is_int()) return repeat(b, a.as_integer(), runtime);
  fail_operands(a, b, "*");
}

Value divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "/");
  if (real(b) == 0) fail_zero(are_ints(a, b) ? "division" : "float division");
  if (!are_ints(a, b)) return Value::real(real(a) / real(b));
  return Value::real(static_cast<double>(static_cast<long double>(a.as_integer()) /
                                         static_cast<long double>(b.as_integer())));
}

Value floor_divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "//");
  if (!are_ints(a, b)) return Value::real(floor_and_remainder(real(a), real(b)).first);
  const int64_t dividend = a.as_integer(), divisor = b.as_integer();
  if (divisor == 0) fail_zero("integer division or modulo");
  if (divisor == -1 && dividend == std::numeric_limits<int64_t>::min()) fail_overflow();
  const int64_t quotient = dividend / divisor;
  const bool inexact = dividend % divisor != 0;
  return Value::integer(quotient - (inexact && (dividend < 0) != (divisor < 0) ? 1 : 0));
}

Value modulo(const Value& a, const Value& b, Runtime& runtime) {
  if (a.is_string()) return format_percent(a, b, runtime);
  if (!are_numbers(a, b)) fail_operands(a, b, "%");
  if (!are_ints(a, b)) {
    if (real(b) == 0) fail_zero("float modulo");
    return Value::real(floor_and_remainder(real(a), real(b)).second);
  }
  const int64_t dividend = a.as_integer(), divisor = b.as_integer();
  if (divisor == 0) fail_zero("integer division or modulo");
  if (divisor == -1) return Value::integer(0);
  const int64_t remainder = dividend % divisor;
  return Value::integer(remainder != 0 && (remainder < 0) != (divisor < 0) ? remainder + divisor : remainder);
}

Value power(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands(a, b, "** or pow()");
  if (are_ints(a, b) && b.as_integer() >= 0)
    return Value::integer(integer_power(a.as_integer(), b.as_integer()));
  const double base = real(a), exponent = real(b);
  if (base == 0 && exponent < 0) fail(FailureKind::value, "0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    fail(FailureKind::value, "a negative number to a fractional power is complex");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    fail(FailureKind::value, "numerical result out of range");
  }
  return Value::real(result);
}

Value negate(const Value& value) {
  if (value.is(Kind::real)) return Value::real(-value.as_real());
  if (!value.is_int()) {
    if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
    fail(FailureKind::type, "bad operand type for unary -: '{}'", value.type_name());
  }
  int64_t negative;
  if (__builtin_sub_overflow(int64_t{0}, value.as_integer(), &negative)) fail_overflow();
  return Value::integer(negative);
}

Value plus(const Value& value) {
  if (value.is(Kind::real) || value.object_if<BigInteger>() != nullptr) return value;
  if (!value.is_int()) {
    if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
    fail(FailureKind::type, "bad operand type for unary +: '{}'", value.type_name());
  }
  return Value::integer(value.as_integer());
}

std::optional<Value> get_item(const Value& value, const Value& key, Runtime& runtime) {
  switch (value.kind()) {
    case Kind::undefined:
      fail(FailureKind::undefined, "{}", value.why_undefined());
    case Kind::dict: {
      if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;  // unhashable
      const Value* found = value.as_dict().find(key, runtime.meter);
      return found == nullptr ? std::nullopt : std::optional<Value>(*found);
    }
    case Kind::string:
    case Kind::list:
    case Kind::tuple: {
      if (!key.is_int()) return std::nullopt;
      const auto size = static_cast<int64_t>(length(value));
      const int64_t wanted = key.as_integer();
      if (wanted >= size || wanted < -size) return std::nullopt;
      const auto index = static_cast<size_t>(wanted < 0 ? wanted + size : wanted);
      if (value.is_sequence()) return value.as_sequence().items[index];
      const String& string = value.as_string();
      const size_t begin = byte_offset(string, index, runtime.meter);
      const size_t end = begin + code_point_size(string.text.bytes()[begin]);
      return runtime.string(string.text.slice(begin, end), string.markup);
    }
    case Kind::object:
      return value.as_object().item(key, runtime);
    default:
      return std::nullopt;
  }
}

Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                Runtime& runtime) {
  if (value.is_undefined()) fail(FailureKind::undefined, "{}", value.why_undefined());
  auto* range = value.object_if<Range>();
  if (!value.is_string() && !value.is_sequence() && range == nullptr) {
    if (value.is(Kind::dict)) fail(FailureKind::type, "unhashable type: 'slice'");
    fail(FailureKind::type, "'{}' object is not subscriptable", value.type_name());
  }
  const int64_t stride = slice_bound(step).value_or(1);
  if (stride == 0) fail(FailureKind::value, "slice step cannot be zero");
  const Selection picked = select(length(value), slice_bound(start), slice_bound(stop), stride);
  runtime.meter.step(picked.count / 16);
  if (value.is_string()) return slice_string(value, picked, runtime);
  if (range != nullptr) return range->slice(picked.start, picked.stop, picked.step, runtime);
  const auto& items = value.as_sequence().items;
  std::vector<Value> sliced;
  sliced.reserve(picked.count);
  for (size_t i = 0; i < picked.count; ++i) {
    sliced.push_back(items[static_cast<size_t>(picked.start + static_cast<int64_t>(i) * picked.step)]);
  }
  return value.is(Kind::list) ? runtime.list(std::move(sliced)) : runtime.tuple(std::move(sliced));
}

}  // namespace rafter::text::jinja

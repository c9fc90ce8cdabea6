// Filters over single values: numbers, defaults, JSON.
#include <array>
#include <cmath>

#include "text/jinja_binder.h"
#include "text/jinja_filters.h"
#include "text/jinja_json.h"
#include "text/jinja_methods.h"
#include "text/jinja_number.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace rafter::text::jinja {
namespace {

Value absolute(Runtime&, const Value& input, const Arguments& arguments) {
  Binder("abs", arguments, {});
  if (input.is(Kind::real)) return Value::real(std::fabs(input.as_real()));
  if (input.is_int()) return input.as_integer() < 0 ? negate(input) : Value::integer(input.as_integer());
  if (input.is_undefined()) fail(FailureKind::undefined, "{}", input.why_undefined());
  fail(FailureKind::type, "bad operand type for abs(): '{}'", input.type_name());
}

Value attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("attr", arguments, {"name"}, 1);
  if (!bound.at(0).is_string()) fail(FailureKind::type, "attribute name must be string");
  if (auto found = find_attribute(input, bound.at(0).text(), runtime)) return *found;
  return runtime.undefined("the attribute does not exist");
}

Value default_value(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("default", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && (truthy(input) || !bound.truth(1, false))) return input;
  return bound.has(0) ? bound.at(0) : runtime.string("");
}

Value to_real(Runtime&, const Value& input, const Arguments& arguments) {
  Binder bound("float", arguments, {"default"});
  if (input.is_string()) {
    if (auto real = parse_real(input.text())) return Value::real(*real);
  } else if (input.is_int() || input.is(Kind::real)) {
    return Value::real(require_real(input));
  } else if (auto* big = input.object_if<BigInteger>()) {
    return Value::real(*parse_real(big->digits()));
  } else if (input.is_undefined()) {
    fail(FailureKind::undefined, "{}", input.why_undefined());
  }
  return bound.value(0, Value::real(0));
}

// "42.9" as a float, cut off; nothing if that fails.
std::optional<Value> integer_by_way_of_real(std::string_view text) {
  const auto real = parse_real(text);
  if (!real || !std::isfinite(*real)) return std::nullopt;
  return Value::integer(truncate_to_integer(*real));
}

Value to_integer(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("int", arguments, {"default", "base"});
  const Value fallback = bound.value(0, Value::integer(0));
  if (input.is_undefined()) fail(FailureKind::undefined, "{}", input.why_undefined());
  if (input.is_string()) {
    const bool has_base = !bound.has(1) || bound.at(1).is_int();
    if (has_base) {
      if (auto integer = parse_integer(input.text(), bound.integer(1, 10), runtime)) return *integer;
    }
    return integer_by_way_of_real(input.text()).value_or(fallback);
  }
  if (input.is_int()) return Value::integer(input.as_integer());
  if (input.object_if<BigInteger>() != nullptr) return input;
  if (!input.is(Kind::real) || std::isnan(input.as_real())) return fallback;
  return Value::integer(truncate_to_integer(input.as_real()));
}

Value round(Runtime&, const Value& input, const Arguments& arguments) {
  Binder bound("round", arguments, {"precision", "method"});
  std::string_view method = "common";
  if (bound.has(1)) method = bound.at(1).is_string() ? bound.at(1).text() : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail(FailureKind::value, "method must be common, ceil or floor");
  }
  if (method == "common") {
    const bool is_none = bound.has(0) && bound.at(0).is_none();
    const int64_t digits = is_none ? 0 : bound.integer(0, 0);
    if (input.is_int()) return Value::integer(round_integer(input.as_integer(), digits));
    const double rounded = round_real(require_real(input), digits);
    if (is_none) return Value::integer(truncate_to_integer(rounded));
    if (std::isinf(rounded) && std::isfinite(input.as_real())) {
      fail(FailureKind::value, "rounded value too large to represent");
    }
    return Value::real(rounded);
  }
  const int64_t precision = bound.integer(0, 0);
  if (precision > 300 || precision < -300) fail(FailureKind::value, "precision out of range");
  const double factor = std::pow(10.0, static_cast<double>(precision));
  const double scaled = require_real(input) * factor;
  if (!std::isfinite(scaled)) fail(FailureKind::value, "cannot convert float infinity or NaN to integer");
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::real((whole + 0.0) / factor);  // as if by way of an integer, which has no negative zero
}

Value json(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (bound.has(1) && !bound.at(1).is_none() && !input.is_string()) {  // a string never looks at its indent
    style.item_separator = Text(",");
    if (bound.at(1).is_string()) {
      style.indent = bound.at(1).as_string().text;
    } else {
      const int64_t width = std::max<int64_t>(bound.integer(1, 0), 0);
      runtime.meter.check_size(static_cast<uint64_t>(width), kMaxNesting);
      style.indent = Text(std::string(static_cast<size_t>(width), ' '));
    }
  }
  if (bound.has(2) && !bound.at(2).is_none()) {
    const std::vector<Value> separators = to_vector(bound.at(2), runtime);
    if (separators.size() != 2) fail(FailureKind::value, "separators must be a pair");
    for (const Value& separator : separators) {
      if (!separator.is_string()) fail(FailureKind::type, "separators must be strings");
    }
    style.item_separator = separators[0].as_string().text;
    style.key_separator = separators[1].as_string().text;
  }
  return runtime.string(to_json(input, style, runtime));
}

// Not one of the reference's filters; ports of DeepSeek's templates use it.
Value from_json(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Binder("from_json", arguments, {});
  if (!input.is_string()) fail(FailureKind::type, "from_json() needs a str, not {}", input.type_name());
  // What it makes lives uncounted, so the most that it can be is counted for the whole render.
  constexpr size_t kMostBytesPerCharacter = 48;
  runtime.meter.check_size(input.text().size(), kMostBytesPerCharacter);
  runtime.meter.reserve(input.text().size() * kMostBytesPerCharacter);
  runtime.meter.step(1 + input.text().size());
  auto parsed = parse_json(input.text());
  if (!parsed.ok()) fail(FailureKind::value, "{}", parsed.error().what);
  return *parsed;
}

constexpr std::array<FilterEntry, 9> kFilters = {{
    {"abs", absolute},
    {"attr", attribute},
    {"d", default_value},
    {"default", default_value},
    {"float", to_real},
    {"from_json", from_json},
    {"int", to_integer},
    {"round", round},
    {"tojson", json},
}};

}  // namespace

std::span<const FilterEntry> value_filters() { return kFilters; }

}  // namespace rafter::text::jinja

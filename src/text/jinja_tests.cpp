#include "text/jinja_tests.h"

#include <array>

#include "text/jinja_binder.h"
#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_text_operations.h"

namespace rafter::text::jinja {
namespace {

template <typename Holds>
bool alone(const Arguments& arguments, Holds holds) {
  Binder("test", arguments, {});
  return holds();
}

template <Kind kKind>
bool is_kind(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return value.is(kKind); });
}

bool is_defined(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return !value.is_undefined(); });
}

bool is_true(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return value.is(Kind::boolean) && value.as_boolean(); });
}

bool is_false(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return value.is(Kind::boolean) && !value.as_boolean(); });
}

bool is_integer(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments,
               [&] { return value.is(Kind::integer) || value.object_if<BigInteger>() != nullptr; });
}

bool is_number(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] {
    return value.is_int() || value.is(Kind::real) || value.object_if<BigInteger>() != nullptr;
  });
}

bool is_sequence(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] {
    return value.is(Kind::object) ? value.as_object().has_items() : try_length(value).has_value();
  });
}

bool is_iterable_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return is_iterable(value, runtime); });
}

bool is_callable(Runtime&, const Value& value, const Arguments& arguments) {
  // An undefined value has a __call__, which fails.
  return alone(arguments, [&] {
    return value.is_undefined() || (value.is(Kind::object) && value.as_object().callable());
  });
}

bool is_escaped(Runtime&, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return value.is_string() && value.as_string().markup; });
}

bool is_lower_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return text_is_lower(to_text(value, runtime).view()); });
}

bool is_upper_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return text_is_upper(to_text(value, runtime).view()); });
}

bool has_remainder(Runtime& runtime, const Value& value, const Value& divisor, int64_t remainder) {
  return equals(modulo(value, divisor, runtime), Value::integer(remainder), runtime.meter);
}

bool is_odd(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return has_remainder(runtime, value, Value::integer(2), 1); });
}

bool is_even(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] { return has_remainder(runtime, value, Value::integer(2), 0); });
}

bool is_divisible_by(Runtime& runtime, const Value& value, const Arguments& arguments) {
  Binder bound("divisibleby", arguments, {"num"}, 1);
  return has_remainder(runtime, value, bound.at(0), 0);
}

bool is_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] {
    hash_value(value, runtime.meter);  // looked up in a table: a list is an error
    return value.is_string() && find_filter(value.text()) != nullptr;
  });
}

bool is_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return alone(arguments, [&] {
    hash_value(value, runtime.meter);
    return value.is_string() && find_test(value.text()) != nullptr;
  });
}

bool is_same_as(Runtime&, const Value& value, const Arguments& arguments) {
  Binder bound("sameas", arguments, {"other"}, 1);
  return is_same(value, bound.at(0));
}

bool is_in(Runtime& runtime, const Value& value, const Arguments& arguments) {
  Binder bound("in", arguments, {"seq"}, 1);
  return contains(bound.at(0), value, runtime);
}

template <bool (*kCompare)(const Value&, const Value&, Meter&), bool kSwapped, bool kNegated = false>
bool compares(Runtime& runtime, const Value& value, const Arguments& arguments) {
  Binder bound("comparison", arguments, {"/other"}, 1);
  const bool holds =
      kSwapped ? kCompare(bound.at(0), value, runtime.meter) : kCompare(value, bound.at(0), runtime.meter);
  return holds != kNegated;
}

constexpr auto kEqual = compares<equals, false>;
constexpr auto kNotEqual = compares<equals, false, true>;
constexpr auto kLess = compares<less, false>;
constexpr auto kLessEqual = compares<less_or_equal, false>;
constexpr auto kGreater = compares<less, true>;
constexpr auto kGreaterEqual = compares<less_or_equal, true>;

constexpr std::array<TestEntry, 39> kTests = {{
    {"!=", kNotEqual},
    {"<", kLess},
    {"<=", kLessEqual},
    {"==", kEqual},
    {">", kGreater},
    {">=", kGreaterEqual},
    {"boolean", is_kind<Kind::boolean>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible_by},
    {"eq", kEqual},
    {"equalto", kEqual},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_kind<Kind::real>},
    {"ge", kGreaterEqual},
    {"greaterthan", kGreater},
    {"gt", kGreater},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable_test},
    {"le", kLessEqual},
    {"lessthan", kLess},
    {"lower", is_lower_test},
    {"lt", kLess},
    {"mapping", is_kind<Kind::dict>},
    {"ne", kNotEqual},
    {"none", is_kind<Kind::none>},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same_as},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::string>},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", is_upper_test},
}};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace rafter::text::jinja

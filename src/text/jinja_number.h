// Numbers from and to text as Python's int(), float() and round() do it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja_runtime.h"

namespace rafter::text::jinja {

// int(text, base): surrounding spaces, a sign, `_` between digits, prefixes of base 2, 8, 16 (or of any with
// base 0). What does not fit 64 bits becomes a BigInteger (base 10 only; other bases fail).
std::optional<Value> parse_integer(std::string_view text, int64_t base, Runtime& runtime);
// A decimal literal without spaces, sign or `_`.
Value integer_from_digits(std::string_view digits, bool negative, Runtime& runtime);
// float(text).
std::optional<double> parse_real(std::string_view text);
// Decimal digits with point and exponent, as std::from_chars reads them; what is out of range is infinite or
// 0.
double real_from_digits(std::string_view digits);

int64_t truncate_to_integer(double value);  // int(value); fails for nan, inf and what is outside 64 bits
// round(value, digits): half to even on the exact decimal value.
double round_real(double value, int64_t digits);
int64_t round_integer(int64_t value, int64_t digits);

// A value where Python wants an int; fails with `what` otherwise. Booleans are ints.
int64_t require_integer(const Value& value, std::string_view what);
// float(value) for numbers; fails otherwise.
double require_real(const Value& value);

}  // namespace rafter::text::jinja

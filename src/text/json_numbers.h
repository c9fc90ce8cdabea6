// Numbers as JSON writes them, between bounds, as byte grammars. Lengths are bounded, so that a model cannot
// write digits for ever.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/byte_grammar.h"

namespace rafter::text {

inline constexpr int kMostIntegerDigits = 18;
inline constexpr int64_t kLargestInteger = 999'999'999'999'999'999;

// Any number: up to 18 digits, 20 behind the point, an exponent from -308 to 99. All are finite as doubles.
int32_t add_any_number(ByteGrammar& grammar);

// Multiples of `multiple` (at least 1) in [low, high], which lie in ± kLargestInteger.
int32_t add_integer(ByteGrammar& grammar, int64_t low, int64_t high, int64_t multiple);

// A bound of numbers, not negative: its digits in front of the point as a number, and behind it.
struct DecimalBound {
  int64_t whole = 0;
  std::string fraction;
  bool is_exclusive = false;
};

inline constexpr int kMostDecimalDigits = 15;  // of numbers with bounds: what a double tells apart
inline constexpr int64_t kLargestDecimal = 999'999'999'999'999;

// A number's magnitude in [low, high], without an exponent.
int32_t add_decimal(ByteGrammar& grammar, const DecimalBound& low, const DecimalBound& high);

}  // namespace rafter::text

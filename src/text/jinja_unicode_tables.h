// Unicode facts that Python's str methods use beyond categories and simple case mappings. The tables are
// sorted.
#pragma once

#include <array>

namespace rafter::text::jinja {

struct CodePointRange {
  char32_t first;
  char32_t last;  // inclusive
};

// A case mapping to two or three code points; unused places are 0.
struct LongCaseMapping {
  char32_t from;
  std::array<char32_t, 3> to;
};

extern const std::array<CodePointRange, 24> kOtherLowercase;
extern const std::array<CodePointRange, 5> kOtherUppercase;
extern const std::array<CodePointRange, 20> kOtherDigits;
extern const std::array<CodePointRange, 72> kOtherNumeric;
extern const std::array<LongCaseMapping, 102> kLongUpper;
extern const std::array<LongCaseMapping, 48> kLongTitle;

}  // namespace rafter::text::jinja

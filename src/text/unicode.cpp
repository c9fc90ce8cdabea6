#include "text/unicode.h"

#include <algorithm>

#include <utf8proc.h>

namespace rafter::text {

const UnicodeAddition kUnicodeAdditions[] = {
#include "text/unicode_additions.inc"
};
const size_t kUnicodeAdditionCount = std::size(kUnicodeAdditions);

namespace {

utf8proc_category_t category_of_addition(char32_t character) {
  const UnicodeAddition* end = kUnicodeAdditions + kUnicodeAdditionCount;
  const UnicodeAddition* range =
      std::lower_bound(kUnicodeAdditions, end, character,
                       [](const UnicodeAddition& addition, char32_t c) { return addition.last < c; });
  if (range == end || character < range->first) return UTF8PROC_CATEGORY_CN;
  switch (range->category[0]) {
    case 'L':
      if (range->category[1] == 'l') return UTF8PROC_CATEGORY_LL;
      return range->category[1] == 'u' ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LO;
    case 'M':
      return UTF8PROC_CATEGORY_MN;
    case 'N':
      return range->category[1] == 'd' ? UTF8PROC_CATEGORY_ND : UTF8PROC_CATEGORY_NO;
    case 'P':
      return UTF8PROC_CATEGORY_PO;
    case 'S':
      return UTF8PROC_CATEGORY_SO;
    default:
      return UTF8PROC_CATEGORY_CN;  // the rest and the other subclasses do not matter here
  }
}

utf8proc_category_t category_of(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_CN ? category_of_addition(character) : category;
}

bool is_circled_or_squared_letter(char32_t c) {  // Other_Alphabetic symbols
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace

CharClass classify_non_ascii(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetter | kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLetter | kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    default:
      return character == 0x85 ? kSpace : kOther;
  }
}

bool is_word_character(char32_t character) {
  if (character == '_' || character == 0x200C || character == 0x200D) return true;
  if (character < 128) return (classify(character) & (kLetter | kNumber)) != 0;
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_NO:
      return false;
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return (classify_non_ascii(character) & (kLetter | kMark | kNumber)) != 0 ||
             is_circled_or_squared_letter(character);
  }
}

}  // namespace rafter::text

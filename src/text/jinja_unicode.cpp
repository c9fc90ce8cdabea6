#include "text/jinja_unicode.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja_unicode_tables.h"

namespace rafter::text::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

template <size_t kSize>
bool in_table(const std::array<CodePointRange, kSize>& table, char32_t c) {
  auto range = std::lower_bound(table.begin(), table.end(), c,
                                [](const CodePointRange& r, char32_t value) { return r.last < value; });
  return range != table.end() && range->first <= c;
}

template <size_t kSize>
const LongCaseMapping* find_mapping(const std::array<LongCaseMapping, kSize>& table, char32_t c) {
  auto found = std::lower_bound(table.begin(), table.end(), c,
                                [](const LongCaseMapping& m, char32_t value) { return m.from < value; });
  return found != table.end() && found->from == c ? &*found : nullptr;
}

void append_mapping(std::string& out, const LongCaseMapping* mapping, utf8proc_int32_t simple) {
  if (mapping == nullptr) {
    base::append_utf8(out, static_cast<char32_t>(simple));
    return;
  }
  for (char32_t c : mapping->to) {
    if (c != 0) base::append_utf8(out, c);
  }
}

void append_upper(std::string& out, char32_t c) {
  append_mapping(out, find_mapping(kLongUpper, c), utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

void append_title(std::string& out, char32_t c) {
  append_mapping(out, find_mapping(kLongTitle, c), utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

// Whether a letter before or after is looked for past `c` (Unicode's Case_Ignorable).
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static constexpr char32_t kInWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                          0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                          0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::binary_search(std::begin(kInWords), std::end(kInWords), c);
}

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kDottedCapitalI = 0x130;

// Σ is ς at the end of a word: a cased letter before it, none after it.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool cased_before = false;
  while (begin > 0) {
    size_t start = begin - 1;
    while (start > 0 && (text[start] & 0xC0) == 0x80) --start;
    const char32_t c = base::decode_utf8(text.substr(start)).code_point;
    begin = start;
    if (is_case_ignorable(c)) continue;
    cased_before = is_cased(c);
    break;
  }
  if (!cased_before) return false;
  char32_t c;
  for (CodePoints after(text.substr(end)); after.next(c);) {
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

// Lower-cases text[begin, end), a single code point of a whole text.
void append_lower(std::string& out, std::string_view text, char32_t c, size_t begin, size_t end) {
  if (c == kCapitalSigma) {
    base::append_utf8(out, is_final_sigma(text, begin, end) ? kFinalSigma : kSmallSigma);
  } else if (c == kDottedCapitalI) {
    out += "i\xCC\x87";
  } else {
    base::append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

// Maps every code point by `append(out, code point, begin, end)`.
template <typename Append>
Text map_code_points(const Text& text, Append append) {
  Text out;
  out.reserve(text.size());
  std::string mapped;
  char32_t c;
  for (CodePoints points(text.view()); points.next(c);) {
    mapped.clear();
    append(mapped, c, points.begin(), points.end());
    out.append_as(mapped, text, points.begin());
  }
  return out;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_letter(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) { return is_decimal(c) || in_table(kOtherDigits, c); }

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) || in_table(kOtherNumeric, c);
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }
bool is_word(char32_t c) { return c == '_' || is_alphanumeric(c); }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || in_table(kOtherLowercase, c); }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU || in_table(kOtherUppercase, c); }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_identifier(std::string_view name) {
  char32_t c;
  bool first = true;
  for (CodePoints points(name); points.next(c); first = false) {
    const auto kind = category(c);
    const bool starts = c == '_' || is_letter(c) || kind == UTF8PROC_CATEGORY_NL;
    const bool continues = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
                           kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC;
    if (!starts && (first || !continues)) return false;
  }
  return !first;
}

bool CodePoints::next(char32_t& code_point) {
  if (end_ >= text_.size()) return false;
  const base::Utf8Step step = base::decode_utf8(text_.substr(end_));
  begin_ = end_;
  end_ += step.length;
  code_point = step.code_point;
  return true;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

Text to_upper(const Text& text) {
  return map_code_points(text, [](std::string& out, char32_t c, size_t, size_t) { append_upper(out, c); });
}

Text to_lower(const Text& text) {
  return map_code_points(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    append_lower(out, text.view(), c, begin, end);
  });
}

Text to_title(const Text& text) {
  bool after_cased = false;
  return map_code_points(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (after_cased) {
      append_lower(out, text.view(), c, begin, end);
    } else {
      append_title(out, c);
    }
    after_cased = is_cased(c);
  });
}

Text to_capitalized(const Text& text) {
  return map_code_points(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text.view(), c, begin, end);
    }
  });
}

Text to_swapped_case(const Text& text) {
  return map_code_points(text, [&](std::string& out, char32_t c, size_t begin, size_t end) {
    if (is_upper(c)) {
      append_lower(out, text.view(), c, begin, end);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      base::append_utf8(out, c);
    }
  });
}

Text to_casefold(const Text& text) {
  return map_code_points(text, [&](std::string& out, char32_t, size_t begin, size_t end) {
    utf8proc_uint8_t* folded = nullptr;
    const std::string_view piece = text.view().substr(begin, end - begin);
    const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(piece.data()),
                                     static_cast<utf8proc_ssize_t>(piece.size()), &folded, UTF8PROC_CASEFOLD);
    std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(folded, &std::free);
    if (length < 0) {
      out += piece;
    } else {
      out.append(reinterpret_cast<const char*>(folded), static_cast<size_t>(length));
    }
  });
}

}  // namespace rafter::text::jinja

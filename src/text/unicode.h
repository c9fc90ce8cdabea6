// Character properties for tokenizers, and a reader for text that is known to be valid UTF-8.
//
// Properties are those of Unicode 16, the version that the `tokenizers` library's regex engine knows:
// utf8proc's categories, completed by text/unicode_additions.inc for characters that the installed utf8proc
// calls unassigned.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rafter::text {

// Classes of a character, as bits. A newline (\r or \n only) is also a space, and a letter may have a case;
// anything else has at most one bit.
using CharClass = uint8_t;
inline constexpr CharClass kOther = 0;
inline constexpr CharClass kLetter = 1;  // \p{L}
inline constexpr CharClass kMark = 2;    // \p{M}
inline constexpr CharClass kNumber = 4;  // \p{N}: digits, letter numbers, fractions, superscripts
inline constexpr CharClass kSpace = 8;  // White_Space, hence U+0085 and U+3000 but not U+200B, U+FEFF, U+180E
inline constexpr CharClass kNewline = 16;
inline constexpr CharClass kUpper = 32;    // \p{Lu} and \p{Lt}
inline constexpr CharClass kLower = 64;    // \p{Ll}
inline constexpr CharClass kSymbol = 128;  // \p{P} and \p{S}

CharClass classify_non_ascii(char32_t character);

namespace detail {
constexpr std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (size_t c = '!'; c <= '~'; ++c) classes[c] = kSymbol;
  for (size_t c = 'a'; c <= 'z'; ++c) classes[c] = kLetter | kLower;
  for (size_t c = 'A'; c <= 'Z'; ++c) classes[c] = kLetter | kUpper;
  for (size_t c = '0'; c <= '9'; ++c) classes[c] = kNumber;
  for (size_t c = '\t'; c <= '\r'; ++c) classes[c] = kSpace;
  classes[' '] = kSpace;
  classes['\r'] = classes['\n'] = kSpace | kNewline;
  return classes;
}
inline constexpr std::array<CharClass, 128> kAsciiClasses = make_ascii_classes();
}  // namespace detail

inline CharClass classify(char32_t character) {
  return character < 128 ? detail::kAsciiClasses[character] : classify_non_ascii(character);
}

// Nd, Nl or No as the Digits step means them: Rust's character tables, which are at Unicode 17 already.
inline bool is_numeric(char32_t character) {
  return (classify(character) & kNumber) != 0 || (character >= 0x11DE0 && character <= 0x11DE9) ||
         (character >= 0x16FF4 && character <= 0x16FF6);
}

// \w of Rust's regex crate, which decides about single_word: letters, marks, decimal digits and letter
// numbers, connector punctuation, join controls, and circled or squared letters.
bool is_word_character(char32_t character);

// The following as the `tokenizers` library has them, which takes them from older tables: see
// text/unicode_vintage.cpp. ASCII's 32 symbols, and P elsewhere.
bool is_punctuation(char32_t character);

// M, and Mn.
bool is_combining_mark(char32_t character);
bool is_nonspacing_mark(char32_t character);

// Without context: a final sigma is like any other.
void append_lowercase(char32_t character, std::string& out);

struct Char {
  char32_t code_point;
  uint32_t length;  // bytes, 1 to 4
};

// The character at `text[position]` of valid UTF-8. Precondition: position < text.size(), at a character's
// start.
inline Char char_at(std::string_view text, size_t position) {
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[position + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// The character that ends at `text[end - 1]`. Precondition: 0 < end <= text.size(), at a character's end.
inline Char char_before(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return char_at(text, start);
}

// Ranges of the form {first, last, category} of characters newer than Unicode 14, sorted.
struct UnicodeAddition {
  char32_t first;
  char32_t last;
  char category[3];  // "Lo"
};
extern const UnicodeAddition kUnicodeAdditions[];
extern const size_t kUnicodeAdditionCount;

}  // namespace rafter::text

#include "text/split_scanner.h"

#include <cstdint>

#include "text/unicode.h"

namespace rafter::text {
namespace {

struct ScannerPattern {
  SplitScanner scanner;
  std::string_view pattern;
};

constexpr ScannerPattern kPatterns[] = {
    {SplitScanner::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitScanner::llama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                           R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::qwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                          R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::minicpm5, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
                             R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::qwen35, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                           R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitScanner::digit_groups, R"(\p{N}{1,3})"},
};

// End of the run of characters from `position` on that satisfy `belongs(CharClass)`.
template <typename Belongs>
size_t run_end(std::string_view text, size_t position, Belongs belongs) {
  while (position < text.size()) {
    const Char character = char_at(text, position);
    if (!belongs(classify(character.code_point))) break;
    position += character.length;
  }
  return position;
}

size_t run_end_of(std::string_view text, size_t position, CharClass wanted) {
  return run_end(text, position, [=](CharClass c) { return (c & wanted) != 0; });
}

CharClass class_at(std::string_view text, size_t position) {
  return position < text.size() ? classify(char_at(text, position).code_point) : kSpace;
}

// The contraction at the start of `text`, which starts with an apostrophe: 0, 2 or 3 characters, in bytes.
// Folding case adds U+017F "ſ", which folds to s, to the capitals.
size_t contraction_length(std::string_view text, bool fold_case) {
  auto letter = [&](size_t i) -> char {
    if (i >= text.size()) return 0;
    return fold_case && text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      return fold_case && text.substr(1, 2) == "\xC5\xBF" ? 3 : 0;
  }
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`, or without its first alternative. `text` starts with white space.
size_t space_length(std::string_view text, bool end_at_newline) {
  size_t end = 0;
  size_t last_start = 0;
  size_t newline_end = 0;
  while (end < text.size()) {
    const Char character = char_at(text, end);
    const CharClass char_class = classify(character.code_point);
    if ((char_class & kSpace) == 0) break;
    last_start = end;
    end += character.length;
    if ((char_class & kNewline) != 0) newline_end = end;
  }
  if (end_at_newline && newline_end > 0) return newline_end;
  if (end == text.size() || last_start == 0) return end;
  return last_start;  // the last one may join the next piece
}

size_t gpt2_length(std::string_view text) {
  if (text[0] == '\'') {
    if (size_t length = contraction_length(text, false); length > 0) return length;
  }
  const size_t start = text[0] == ' ' ? 1 : 0;
  const CharClass char_class = class_at(text, start);
  if ((char_class & kLetter) != 0) return run_end_of(text, start, kLetter);
  if ((char_class & kNumber) != 0) return run_end_of(text, start, kNumber);
  if ((char_class & kSpace) != 0) return space_length(text, false);
  return run_end(text, start, [](CharClass c) { return (c & (kLetter | kNumber | kSpace)) == 0; });
}

// cl100k's pattern and its relatives. Letters: the classes that make up words. A mark that counts as a letter
// is also allowed as the optional character in front of a word; the piece is the same either way.
template <CharClass Letters, size_t MaxNumbers>
size_t cl100k_length(std::string_view text) {
  if (text[0] == '\'') {
    if (size_t length = contraction_length(text, true); length > 0) return length;
  }
  const Char first = char_at(text, 0);
  const CharClass char_class = classify(first.code_point);
  if ((char_class & Letters) != 0) return run_end_of(text, first.length, Letters);
  if ((char_class & kNumber) != 0) {
    size_t end = first.length;
    for (size_t count = 1; count < MaxNumbers && (class_at(text, end) & kNumber) != 0; ++count) {
      end += char_at(text, end).length;
    }
    return end;
  }
  if ((char_class & kNewline) == 0 && (class_at(text, first.length) & Letters) != 0) {
    return run_end_of(text, first.length, Letters);
  }
  const size_t start = first.code_point == ' ' ? 1 : 0;
  auto is_symbol = [](CharClass c) { return (c & (Letters | kNumber | kSpace)) == 0; };
  if (!is_symbol(class_at(text, start))) return space_length(text, true);
  const size_t end = run_end(text, start, is_symbol);
  return run_end_of(text, end, kNewline);
}

size_t digit_group_length(std::string_view text) {
  size_t end = 0;
  if ((class_at(text, 0) & kNumber) == 0)
    return run_end(text, 0, [](CharClass c) { return (c & kNumber) == 0; });
  for (int count = 0; count < 3 && (class_at(text, end) & kNumber) != 0; ++count)
    end += char_at(text, end).length;
  return end;
}

}  // namespace

std::optional<SplitScanner> scanner_for_pattern(std::string_view pattern) {
  for (const ScannerPattern& known : kPatterns) {
    if (known.pattern == pattern) return known.scanner;
  }
  return std::nullopt;
}

std::string_view pattern_of_scanner(SplitScanner scanner) {
  for (const ScannerPattern& known : kPatterns) {
    if (known.scanner == scanner) return known.pattern;
  }
  return {};
}

bool covers_everything(SplitScanner scanner) { return scanner != SplitScanner::digit_groups; }

size_t first_piece_length(SplitScanner scanner, std::string_view text) {
  switch (scanner) {
    case SplitScanner::gpt2:
      return gpt2_length(text);
    case SplitScanner::llama3:
      return cl100k_length<kLetter, 3>(text);
    case SplitScanner::qwen2:
      return cl100k_length<kLetter, 1>(text);
    case SplitScanner::minicpm5:
      return cl100k_length<kLetter, SIZE_MAX>(text);
    case SplitScanner::qwen35:
      return cl100k_length < kLetter | kMark, 1 > (text);
    case SplitScanner::digit_groups:
      return digit_group_length(text);
  }
  return text.size();
}

}  // namespace rafter::text
